"""A packed set of pictures, rotated: a task for each angle (cross-task linearity paper, rotated MNIST)."""

import argparse
import math
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from errors import InputError
from packed import COUNTS_TITLE, Say
from pictures.parts import Pictures, keep_inputs, opened
from splits import SPLIT_NAMES

CUT_MOST = 1e-3  # of the brightness, that a rotation may turn out of the picture


def rotated(pictures: Pictures, angle: float) -> Pictures:
    """Each [n,s,s,c] by so many degrees against the clock, bilinearly, about its middle, on black."""
    if angle % 90 == 0:
        return np.ascontiguousarray(np.rot90(pictures, round(angle / 90), axes=(1, 2)))
    turned = [
        np.asarray(Image.fromarray(picture.squeeze()).rotate(angle, Image.Resampling.BILINEAR)) for picture in pictures
    ]
    return np.stack(turned).reshape(pictures.shape)


def cut_share(pictures: Pictures) -> float:
    """How much of the brightness lies outside the largest circle, where a rotation may turn it out."""
    side = pictures.shape[1]
    down, across = np.mgrid[:side, :side] - (side - 1) / 2
    bright: NDArray[np.float64] = pictures.sum(axis=(0, 3), dtype=np.float64)
    return float(bright[np.hypot(down, across) > side / 2].sum() / max(bright.sum(), 1))


def check(path: Path, pictures: Pictures, angles: list[float]) -> None:
    for angle in angles:
        if not math.isfinite(angle) or not 0 <= angle < 360:
            raise InputError(f"--angles {angle:g}: expected degrees from 0 to below 360")
        if angles.count(angle) > 1:
            raise InputError(f"--angles {angle:g}: named twice")
    if pictures.shape[1] != pictures.shape[2]:
        raise InputError(f"{path}: pictures of {pictures.shape[1]}×{pictures.shape[2]}; expected square ones")
    slanted = [angle for angle in angles if angle % 90 != 0]
    if slanted and cut_share(pictures) > CUT_MOST:
        raise InputError(
            f"--angles {slanted[0]:g}: {path} has {100 * cut_share(pictures):.2g} % of its brightness in the corners, "
            f"which would be cut off; expected at most {100 * CUT_MOST:g} %, or multiples of 90 degrees"
        )


def prepare(options: argparse.Namespace, say: Say) -> None:
    with opened(options.input) as source:
        check(options.input, source.read("train/inputs"), options.angles)
        rows = {split: np.arange(len(source.file[f"{split}/labels"])) for split in SPLIT_NAMES}
        paths = {angle: options.out / f"{options.input.stem}-{angle:g}.h5" for angle in options.angles}
        keep_inputs([options.input], list(paths.values()), options.replace)
        say(COUNTS_TITLE)
        for angle, path in paths.items():
            turn = partial(rotated, angle=angle)
            say(source.write(path, rows, options.replace, turn))
