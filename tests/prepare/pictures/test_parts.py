# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A packed set cut by classes, and parts of it replaced by others'."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from command import main

CLASSES, EACH = 6, 10


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Each class has ten pictures a split. A picture's first number is its class, its second its row."""
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        for split in ("train", "validation", "test"):
            labels = np.tile(np.arange(CLASSES), EACH)
            pictures = np.zeros((len(labels), 2, 2, 3), np.uint8)
            pictures[:, 0, 0, 0], pictures[:, 0, 0, 1] = labels, np.arange(len(labels))
            file[f"{split}/inputs"], file[f"{split}/labels"] = pictures, labels
        file["class_names"] = np.array([f"c{k}" for k in range(CLASSES)], dtype=h5py.string_dtype())
        file.attrs.update(task="set", modality="image", source="drawn by a test", license="Apache-2.0")
        file.attrs["mean"] = file.attrs["std"] = [0.5, 0.5, 0.5]
    return path


def test_parts_and_replaced_pictures(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["parts", str(source), "--classes", "2", "3", "1", "--pictures", "8", "--replaced", "25", "50"]
    assert main([*arguments, "--out", str(out)]) == 0
    expected = {"start": {0, 1}, "d1": {2, 3, 4}, "d2": {5}}
    train = {}
    for path in sorted(out.glob("*.h5")):
        with h5py.File(path) as file:
            assert file.attrs["task"] == path.stem and file["head"].attrs["kind"] == "words"
            assert file["head/tokens"][()].tolist() == list(range(CLASSES))
            for split in ("train", "validation", "test"):
                labels, pictures = file[f"{split}/labels"][()], file[f"{split}/inputs"][()]
                assert (pictures[:, 0, 0, 0] == labels).all()
                assert len(np.unique(pictures[:, 0, 0, 1])) == len(labels)  # none twice
                classes = expected[path.stem.split("-")[0]]
                if split != "train" or "-" not in path.stem:
                    assert set(labels) == classes and len(labels) == 8 * len(classes)
            train[path.stem] = file["train/labels"][()]
    assert set(train) == {
        *expected,
        *(f"{name}-{percent}" for name in ("d1-start", "d2-start", "d2-d1") for percent in (25, 50)),
    }
    for name, labels in train.items():
        task, other, percent = [*name.split("-"), "", "0"][:3] if "-" in name else (name, name, "0")
        foreign = np.isin(labels, list(expected[other])) & (other != task)
        count = len(train[task])
        assert foreign.sum() == min(count * int(percent) // 100, count) and len(labels) == count


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--classes", "2", "3"], "three numbers or more"),
        (["--classes", "2", "3", "2"], "at most the 6"),
        (["--classes", "2", "3", "1", "--replaced", "0"], "percents from 1 to 100"),
        (["--classes", "1", "4", "1", "--replaced", "100"], "needs 40 other pictures; there are 10"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    arguments: list[str], words: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parts", str(source), *arguments, "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err
