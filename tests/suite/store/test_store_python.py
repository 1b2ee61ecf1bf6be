# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What Python's own readers make of the files that taugrid writes, and the other way round."""

import os
import subprocess

import h5py
import numpy as np
import pytest
import torch
from safetensors import torch as safetensors_torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    tensors = {
        "b": torch.arange(3, dtype=torch.bfloat16),
        "a": torch.ones(2, 2),
        "c": torch.tensor([True, False]),
        "z": torch.zeros(0, 3),
    }
    safetensors_torch.save_file(tensors, folder / "python.safetensors", metadata={"format": "pt"})
    command = [os.environ["TAUGRID_MPIEXEC"], "-n", "2", "--oversubscribe", os.environ["TAUGRID_STORE_SAMPLE"]]
    subprocess.run([*command, str(folder)], check=True, timeout=100)
    return folder


def test_safetensors_written(folder):
    tensors = safetensors_torch.load_file(folder / "written.safetensors")
    assert len(tensors) == 12
    assert tensors["BFloat16"].dtype == torch.bfloat16
    assert tensors["empty"].shape == (0, 4)
    assert tensors["scalar"].item() == 2.5
    assert tensors["Double"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with safetensors_torch.safe_open(folder / "written.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_safetensors_copied(folder):
    before = safetensors_torch.load_file(folder / "python.safetensors")
    after = safetensors_torch.load_file(folder / "copied.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor, after[name])


def test_results(folder):
    with h5py.File(folder / "results.h5") as file:
        assert file.attrs["schema_version"] == 1
        assert file.attrs["command_line"] == "taugrid run ü.toml"
        assert list(file["provenance"].attrs["hosts"]) == ["a", "b"]
        assert file["correct"].attrs["points"].tolist() == [[[0, 1]], [[2, 3]], [[4, 5]]]
        assert file["correct"].attrs["each"] == 7 and file["correct"].attrs["each"].shape == ()
        assert list(file["tasks/name"].asstr()) == ["mnist", "dtd", "größe"]
        cosine = file["similarity/linear/cosine"]
        assert cosine[:].tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
        assert cosine.attrs["units"] == "1"
        assert [dimension.label for dimension in cosine.dims] == ["task", "task"]
        assert cosine.dims[1][0].name == "/tasks/name"
        assert file["addition/linear/absolute"][()] == 0.5
        assert np.isnan(file["never/measured"][:]).all()
        units = file["units"][:]
        assert units["seconds"].tolist() == [1.5, 2.5]
        assert units["key"][1].decode() == "ü"
        assert units.dtype["device"].kind == "S"
    assert not list(folder.glob(".*partial*"))
