# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""results.h5 and the run folder are what shared programs were promised: names, shapes, scales, units, origin."""

import json
from datetime import datetime
from pathlib import Path

import h5py
import numpy as np
import pytest
from launch import leftovers, units
from world import CLASSES, TASKS

T, P, N, A = 3, 3, 24, 6
PER_REGIME = {
    "single_task/{}/accuracy": ((T,), "1"), "single_task/{}/loss": ((T,), "nat"),
    "single_task/{}/sample_index": ((T, N), None), "single_task/{}/validation_sample_index": ((T, N), None),
    "training/{}/loss": ((T, 25), "nat"), "training/{}/seconds": ((T,), "s"),
    "similarity/{}/cosine": ((T, T), "1"), "similarity/{}/norm": ((T,), None), "similarity/{}/norm_ratio": ((T,), "1"),
    **{f"similarity/{{}}/{name}": ((T, T), "1") for name in ("sign_conflict", "sign_conflict_all", "mask_overlap")},
    "similarity/{}/mask_density": ((T,), "1"),
    "similarity/{}/loss_gap": ((P, 2), "nat"), "similarity/{}/sample_index": ((T, N), None),
    "disentanglement/{}/error": ((P, 5, 5), "1"), "disentanglement/{}/error_by_task": ((P, 2, 5, 5), "1"),
    "disentanglement/{}/alpha": ((5,), "1"),
    "representation/{}/error": ((P, 5, 5), "nat"), "representation/{}/error_by_task": ((P, 2, 5, 5), "nat"),
    "representation/{}/symmetric_error": ((P, 5, 5), "nat"),
    "representation/{}/symmetric_error_by_task": ((P, 2, 5, 5), "nat"),
    "smoothness/{}/lambda_max": ((T,), None), "smoothness/{}/residual": ((T,), "1"),
    "smoothness/{}/hvp_count": ((T,), "1"), "smoothness/{}/sample_index": ((T, 24), None),
    **{f"linearity/{{}}/{token}{name}": ((P, 4, 2, 5), "1") for name in ("cosine", "coefficient", "baseline", "error")
       for token in ("", "class_")},
    "layer_addition/{}/class_error": ((P, 4, 1, 5), "1"),
    "layer_addition/{}/lambda": ((1,), "1"),
    "layer_negation/{}/baseline": ((T, 4, 1, 5), "1"),
    "layer_averages/{}/baseline": ((T, 4, 5), "1"),
    "layer_averages/{}/class_error_histogram": ((T, 4, 80), "1"),
    "layer_averages/{}/data": ((T,), None),
    "layer_averages/{}/sets": ((T, T), None),
    "layer_negation/{}/coefficient_histogram": ((T, 4, 1, 80), "1"),
    "layer_negation/{}/passes": ((T,), "1"),
    "linearity/{}/cosine_histogram": ((P, 4, 2, 57), "1"), "linearity/{}/error_histogram": ((P, 4, 2, 80), "1"),
    "linearity/{}/alpha": ((2,), "1"), "linearity/{}/passes": ((T,), "1"), "linearity/{}/sample_index": ((T, N), None),
    "addition/{}/alpha": ((A,), "1"), "addition/{}/validation_accuracy": ((A, T), "1"),
    "addition/{}/test_accuracy": ((A, T), "1"), "addition/{}/chosen_alpha": ((), "1"),
    "addition/{}/absolute": ((), "1"), "addition/{}/normalized": ((), "1"),
    "addition/{}/one_shot_absolute": ((), "1"), "addition/{}/one_shot_normalized": ((), "1"),
    "correct/single_task/{}/accuracy": ((T, N // 8), None),
    "correct/single_task/{}/validation_accuracy": ((T, N // 8), None),
    "correct/addition/{}/test_accuracy": ((A, T, N // 8), None),
    "correct/addition/{}/validation_accuracy": ((A, T, N // 8), None),
    "addition/{}/sample_index": ((T, N), None), "addition/{}/validation_sample_index": ((T, N), None),
}
ONCE = {
    "tasks/name": ((T,), None), "tasks/classes": ((T,), None), "tasks/space": ((T,), None),
    "pairs/tasks": ((P, 2), None),
    "single_task/pretrained/accuracy": ((T,), "1"), "single_task/pretrained/loss": ((T,), "nat"),
    "disentanglement/standard/sample_index": ((T, 16), None), "disentanglement/linear/sample_index": ((T, 24), None),
    "ntk/pretrained/gram": ((T, 4, 6, T, 6), None), "ntk/pretrained/local_energy": ((T, T, 4, 12), "1"),
    "ntk/pretrained/sample_index": ((T, 6), None), "ntk/pretrained/rank": ((T, T, 4), "1"),
    "ntk/pretrained/null_share": ((T, 4, 4), "1"), "ntk/pretrained/null_energy": ((T, 4, 4, 12), "1"),
    "ntk/pretrained/null_gram": ((T, 4, 6, 4, 6), None), "ntk/pretrained/null_sample_index": ((T, 4, 6), None),
    "tau_jp/linear/value": ((T, T), None), "tau_jp/linear/sample_index": ((T, N), None),
    "tau_jp/linear/validation_value": ((T, T), None), "tau_jp/linear/validation_sample_index": ((T, N), None),
}
DATASETS = {path.format(regime): what for path, what in PER_REGIME.items() for regime in ("standard", "linear")} | ONCE


@pytest.fixture(scope="module")
def file(run_folder: Path) -> h5py.File:
    return h5py.File(run_folder / "results.h5")


@pytest.mark.parametrize("path", DATASETS)
def test_shape_and_unit(file: h5py.File, path: str) -> None:
    shape, unit = DATASETS[path]
    assert file[path].shape == shape
    if unit is not None:
        assert file[path].attrs["units"] == unit
    if np.issubdtype(file[path].dtype, np.floating) and not path.startswith("ntk"):
        assert np.isfinite(file[path][()]).all()


def test_every_dimension_has_a_scale(file: h5py.File) -> None:
    def check(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if not isinstance(item, h5py.Dataset) or item.is_scale:
            return
        for dimension in item.dims:
            assert len(dimension) == 1, name
            assert dimension[0].shape == (item.shape[dimension._dimension],), name
            assert dimension.label, name

    file.visititems(check)
    assert file["similarity/linear/cosine"].dims[0][0].name == "/tasks/name"
    assert file["disentanglement/linear/error"].dims[2][0].name == "/disentanglement/linear/alpha"
    scales = [dimension[0].name for dimension in file["linearity/linear/cosine"].dims]
    assert scales[1:] == [f"/linearity/linear/{name}" for name in ("layer", "alpha", "statistic")]
    assert [int(layer) for layer in file["linearity/linear/layer"]] == [0, 1, 2, 3]
    assert file["addition/standard/test_accuracy"].dims[0][0].name == "/addition/standard/alpha"


def test_samples_are_rows_without_repeats(file: h5py.File) -> None:
    rows = {"smoothness": 60, "ntk": 60, "barrier": 60}
    paths = []
    file.visititems(lambda name, _: paths.append(name) if name.endswith("sample_index") else None)
    assert len(paths) > 10
    for name in paths:
        limit = 20 if "validation" in name else rows.get(name.split("/")[0], 30)
        for row in file[name][()].reshape(T if file[name].ndim > 1 else 1, -1):
            used = row[row >= 0]
            assert len(set(used)) == len(used) == min(limit, len(row)) and used.max() < limit, name


def test_names_and_pairs(file: h5py.File) -> None:
    assert [name.decode() for name in file["tasks/name"]] == TASKS
    assert list(file["tasks/classes"]) == [CLASSES[name] for name in TASKS]
    assert file["pairs/tasks"][()].tolist() == [[0, 1], [0, 2], [1, 2]]


def test_root_attributes(file: h5py.File) -> None:
    root = file.attrs
    assert root["schema_version"] == 2
    assert root["taugrid_version"] and root["git_revision"]
    assert "taugrid run" in root["command_line"] and "tiny.toml" in root["command_line"]
    started, finished = (datetime.fromisoformat(root[name]) for name in ("started_utc", "finished_utc"))
    assert started <= finished and finished.utcoffset() is not None


def test_units_are_the_committed_files(file: h5py.File, run_folder: Path) -> None:
    table = file["units"][()]
    assert table.dtype.names[:4] == ("key", "rank", "seconds", "device")
    assert table.dtype.names[4:] in ((), ("joules", "energy_source"))  # where something counts them
    names = {row["key"].decode().replace("/", "__") + ".safetensors" for row in table}
    assert names == {path.name for path in (run_folder / "units").iterdir()}
    assert len(table) == units(run_folder)
    assert set(table["rank"]) <= {0, 1} and (table["seconds"] >= 0).all()


def test_provenance_without_a_foreign_environment(file: h5py.File, run_folder: Path) -> None:
    attributes = dict(file["provenance"].attrs)
    for name in ("taugrid", "git_revision", "compiler", "build_type", "libtorch", "hdf5_compiled", "hdf5_loaded",
                 "mpi_loaded", "kokkos", "cpu_capability", "seed", "ranks", "threads_per_rank", "hosts", "devices"):
        assert name in attributes, name
    assert attributes["ranks"] == len(attributes["hosts"]) == 2 and attributes["seed"] == 5
    assert attributes["OMPI_COMM_WORLD_SIZE"] == "2"
    for path in run_folder.rglob("*"):
        assert not path.is_file() or b"a secret of the shell" not in path.read_bytes(), path


def test_the_run_folder_is_whole(run_folder: Path) -> None:
    assert leftovers(run_folder) == []
    for regime in ("standard", "linear"):
        for task in TASKS:
            folder = run_folder / "checkpoints" / regime / task
            assert json.loads((folder / "config.json").read_text())["projection_dim"] == 12
            assert (folder / "model.safetensors").is_file()
    for rank in range(2):
        assert (run_folder / "log" / f"rank-{rank:05}.log").stat().st_size > 0
    text = (run_folder / "config.toml").read_text()
    assert "learning_rate = 0.002" in text and "clip_norm" in text  # defaults too
