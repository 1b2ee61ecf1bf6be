# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity in closed form; a linear regime's features miss a tenth of what others' do."""

from __future__ import annotations

from collections.abc import Iterable

import h5py
import numpy as np

from taugrid_analysis.contract import LINEARITY

ALPHA, LAYERS, POINTS = (0.25, 0.5, 0.75), (0, 1, 2, 4), 60
COSINE_EDGES = [1 - 2 * 10 ** (-k / 8) for k in range(57)] + [1.0]
COEFFICIENT_EDGES = [0.025 * k for k in range(81)]


def mean_of(name: str, pair: int, layer: int, alpha: float) -> float:
    """1 − cosine is (pair + 1) · 10⁻⁴ · (layer + 1) · 4α(1−α), the baseline's ten times that at α = ½."""
    size = 1e-4 * (pair + 1) * (1 + layer)
    bend = 4 * alpha * (1 - alpha)
    if name.endswith("baseline"):
        return 1 - 10 * size
    if name.endswith("error"):
        return 100 * size * bend
    return 1 - size * bend


def write(file: h5py.File, regimes: Iterable[str]) -> None:
    pairs = len(file["pairs/tasks"])
    for regime in set(regimes) & {"standard", "linear"}:
        group = file.create_group(f"linearity/{regime}")
        group["alpha"], group["layer"] = np.array(ALPHA), np.array(LAYERS)
        group["passes"] = np.full(len(file["tasks/name"]), 3)
        group.attrs["last_layer"] = LAYERS[-1]
        group.attrs["cosine_edges"], group.attrs["coefficient_edges"] = COSINE_EDGES, COEFFICIENT_EDGES
        for name in LINEARITY:
            if not name.startswith("class_"):
                _quantity(group, name, pairs)


def _quantity(group: h5py.Group, name: str, pairs: int) -> None:
    far = 0.1 if group.name.endswith("linear") and "baseline" not in name else 1.0
    places = [(p, layer, a) for p in range(pairs) for layer in range(len(LAYERS)) for a in ALPHA]
    means = np.array([mean_of(name, *place) for place in places]).reshape(pairs, len(LAYERS), len(ALPHA))
    means = means * far if name.endswith("error") else 1 - far * (1 - means)
    width = 0.1 * np.abs(1 - means)
    edges = COSINE_EDGES if name.endswith(("cosine", "baseline")) else COEFFICIENT_EDGES
    bins = np.clip(np.searchsorted(edges[1:-1], means, side="right"), 0, len(edges) - 2)
    group[name] = np.stack([means, width, means - width, means, means + width], axis=-1)
    group[f"{name}_histogram"] = (POINTS * np.eye(len(edges) - 1)[bins]).astype(np.int16)
