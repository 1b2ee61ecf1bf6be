# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of results.h5, without those of the machine."""

from pathlib import Path

import h5py
import numpy as np

OWN = ("units", "cost", "provenance")  # times, hosts


def numbers(path: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}

    def keep(name: str, node: h5py.Dataset | h5py.Group) -> None:
        ours = isinstance(node, h5py.Dataset) and node.dtype.kind in "fiu" and not name.startswith(OWN)
        if ours and not name.endswith("/seconds"):
            found[name] = node[()]

    with h5py.File(path) as file:
        file.visititems(keep)
    return found


def assert_close(expected: dict[str, np.ndarray], ours: dict[str, np.ndarray], tolerance: float = 1e-4) -> None:
    """Relative to each data set's largest number."""
    assert expected.keys() == ours.keys()
    for name, value in expected.items():
        scale = np.nanmax(np.abs(value), initial=1e-30)
        assert np.array_equal(np.isnan(value), np.isnan(ours[name])), name
        assert np.nanmax(np.abs(value - ours[name]), initial=0) <= tolerance * scale, name
