# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A packed set of pictures rotated, against SciPy's interpolation; what cannot be rotated is refused."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from command import main

SIDE, COUNT = 16, 6


def blobs(sides: tuple[int, int], corners: bool) -> NDArray[np.uint8]:
    """Bright spots beside the middle, or over all of the picture."""
    down, across = np.mgrid[: sides[0], : sides[1]]
    pictures = [np.exp(-((down - 6) ** 2 + (across - 6 - k / 3) ** 2) / 5) for k in range(COUNT)]
    values = np.stack(pictures) if not corners else np.ones((COUNT, *sides))
    return np.repeat((255 * np.where(values > 0.01, values, 0)).astype(np.uint8)[..., None], 3, axis=-1)


def packed(path: Path, width: int = SIDE, corners: bool = False) -> Path:
    with h5py.File(path, "w") as file:
        for split in ("train", "validation", "test"):
            file[f"{split}/inputs"] = blobs((SIDE, width), corners)
            file[f"{split}/labels"] = np.arange(COUNT) % 2
        file["class_names"] = np.array(["a", "b"], dtype=h5py.string_dtype())
        file.attrs.update(task="set", modality="image", source="drawn by a test", license="Apache-2.0")
        file.attrs["mean"] = file.attrs["std"] = [0.5, 0.5, 0.5]
    return path


def test_each_angle_is_a_task(tmp_path: Path) -> None:
    source, out = packed(tmp_path / "set.h5"), tmp_path / "out"
    assert main(["rotated", str(source), "--angles", "0", "22.5", "90", "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {"set-0.h5", "set-22.5.h5", "set-90.h5"}
    unturned = blobs((SIDE, SIDE), False)
    for angle in (0.0, 22.5, 90.0):
        with h5py.File(out / f"set-{angle:g}.h5") as file:
            assert file.attrs["task"] == f"set-{angle:g}" and file["head"].attrs["kind"] == "words"
            for split in ("train", "validation", "test"):
                assert file[f"{split}/labels"][()].tolist() == [0, 1, 0, 1, 0, 1]
                turned = file[f"{split}/inputs"][()].astype(float)
                expected = ndimage.rotate(unturned.astype(float), angle, axes=(2, 1), order=1, reshape=False)
                assert np.abs(turned - expected).max() <= (1.5 if angle == 22.5 else 1e-9)
    other_way = ndimage.rotate(unturned.astype(float), 22.5, (2, 1), order=1, reshape=False)
    assert np.abs(unturned.astype(float) - other_way).max() > 50


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["45"], "of its brightness in the corners"),
        (["-10"], "expected degrees from 0 to below 360"),
        (["nan"], "expected degrees from 0 to below 360"),
        (["90", "90.0"], "named twice"),
    ],
)
def test_what_cannot_be_rotated_is_refused(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = packed(tmp_path / "set.h5", corners=True)
    assert main(["rotated", str(source), "--angles", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err


def test_pictures_that_are_not_square_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = packed(tmp_path / "set.h5", width=SIDE + 1)
    assert main(["rotated", str(source), "--angles", "90", "--out", str(tmp_path / "out")]) == 2
    assert "expected square ones" in capsys.readouterr().err


def test_filled_pictures_turn_by_quarters(tmp_path: Path) -> None:
    source = packed(tmp_path / "set.h5", corners=True)
    assert main(["rotated", str(source), "--angles", "90", "180", "--out", str(tmp_path / "out")]) == 0
