# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of two results.h5, side by side."""

from pathlib import Path

import h5py
import numpy as np


def numbers(results: Path) -> dict[str, np.ndarray]:
    """Every data set but the timings."""
    values: dict[str, np.ndarray] = {}

    def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset) and name != "units" and not name.endswith(("/seconds", "/seconds_per_step")):
            values[name] = item[()]

    with h5py.File(results) as file:
        file.visititems(visit)
    return values


def differing(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> list[str]:
    """Names of data sets that are not bitwise the same."""
    return sorted(name for name in a.keys() | b.keys()
                  if name not in a or name not in b or a[name].dtype != b[name].dtype
                  or a[name].shape != b[name].shape or a[name].tobytes() != b[name].tobytes())


def _same_bins(a: np.ndarray, b: np.ndarray, name: str) -> None:
    """But for points that lie near an edge: counts along the last axis."""
    assert (np.abs(a - b).sum(-1) <= 0.25 * a.sum(-1)).all(), name


def assert_close(expected: dict[str, np.ndarray], ours: dict[str, np.ndarray], tolerance: float = 1e-4) -> None:
    """Relative to each data set's largest number. What a step costs is the device's own."""
    assert expected.keys() == ours.keys()
    for name, value in expected.items():
        if value.dtype.kind not in "fiu":
            assert np.array_equal(value, ours[name]), name
        elif name.endswith("_histogram"):
            _same_bins(value, ours[name], name)
        elif _is_error_of_mixing(name):
            np.testing.assert_allclose(value, ours[name], rtol=tolerance, atol=tolerance, err_msg=name)
        elif "/sign_conflict" in name or "/mask_" in name:
            # Numbers whose gradient is 0 but for rounding, such as keys' biases, have either sign.
            np.testing.assert_allclose(value, ours[name], atol=1e-2, err_msg=name)
        elif not name.startswith("cost/"):
            scale = np.nanmax(np.abs(value), initial=1e-30)
            assert np.array_equal(np.isnan(value), np.isnan(ours[name])), name
            assert np.nanmax(np.abs(value - ours[name]), initial=0) <= tolerance * scale, name


def _is_error_of_mixing(name: str) -> bool:
    """How far mixed weights are from mixed outputs: rounding alone, of a linear model."""
    return name.startswith(("linearity/", "layer_")) or (name.startswith("averages/") and name.endswith("/gap"))


def close_to_rounding(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], tolerance: float = 2e-3) -> None:
    """Two trainings that sum in another order."""
    assert ours.keys() == theirs.keys()
    for name, a in ours.items():
        b = theirs[name]
        if name.startswith("correct/"):  # a picture between two classes
            assert (np.unpackbits(a) != np.unpackbits(b)).mean() <= 0.02, name
        elif name.endswith("_histogram"):
            _same_bins(a, b, name)
        elif not np.issubdtype(a.dtype, np.floating):
            if not name.endswith(("hvp_count", "peak_memory", "/rank")):
                assert np.array_equal(a, b), name
        elif name.endswith("chosen_alpha") or (name.startswith("negation/") and name.endswith(("/target", "/control"))):
            continue  # may fall on another α where two are as good
        elif not _is_error_of_mixing(name) and any(part in name for part in (
                "accuracy", "disentanglement/", "absolute", "normalized", "negation/", "averages/", "stitching/")):
            # A picture between two classes may fall to the other.
            assert np.nanmax(np.abs(a - b)) <= 0.15, name
            assert (np.abs(a - b) > 1e-9).mean() <= 0.1 or a.ndim == 0, name
        elif not name.endswith(("residual", "local_energy", "null_energy", "null_share")):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)
