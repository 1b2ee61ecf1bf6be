# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity in closed form; a linear regime's features miss a tenth of what others' do."""

from __future__ import annotations

from collections.abc import Iterable

import h5py
import numpy as np

from taugrid_analysis.quantities.linearity import NEGATED as NEGATED_LINEARITY
from taugrid_analysis.quantities.linearity import QUANTITIES as LINEARITY

ALPHA, LAYERS, POINTS = (0.25, 0.5, 0.75), (0, 1, 2, 4), 60
LAMBDA = (0.4, 1.0)  # as α, which at 0.4 and ½ bends nearly alike
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
    pairs, tasks = len(file["pairs/tasks"]), len(file["tasks/name"])
    for regime in set(regimes) & {"standard", "linear"}:
        _group(file, f"linearity/{regime}", ("alpha", ALPHA), pairs, LINEARITY)
        _group(file, f"layer_addition/{regime}", ("lambda", LAMBDA), pairs, LINEARITY)
        _group(file, f"layer_negation/{regime}", ("lambda", LAMBDA), tasks, NEGATED_LINEARITY)
        for kind in ("linearity", "layer_negation"):
            file[f"{kind}/{regime}/passes"] = np.full(tasks, 3)


def write_averages(file: h5py.File, sets: list[list[int]]) -> None:
    """Writes averages of these models, a data set a row; row d is as pair d at α = ½."""
    group = _group(file, "layer_averages/standard", ("half", (0.5,)), len(sets), LINEARITY)
    for name in [name for name in group if group[name].ndim == 4]:
        values = group[name][()][:, :, 0]
        del group[name]
        group[name] = values
    del group["half"]
    group["data"], tasks = [row[0] for row in sets], range(len(file["tasks/name"]))
    group["sets"] = np.array([[t in row for t in tasks] for row in sets], dtype=np.uint8)


def _group(
    file: h5py.File, path: str, axis: tuple[str, tuple[float, ...]], count: int, names: Iterable[str]
) -> h5py.Group:
    group = file.create_group(path)
    group[axis[0]], group["layer"] = np.array(axis[1]), np.array(LAYERS)
    group.attrs["last_layer"] = LAYERS[-1]
    group.attrs["cosine_edges"], group.attrs["coefficient_edges"] = COSINE_EDGES, COEFFICIENT_EDGES
    for name in names:
        if not name.startswith("class_"):
            _quantity(group, name, count, axis[1])
    return group


def _quantity(group: h5py.Group, name: str, count: int, weights: tuple[float, ...]) -> None:
    far = 0.1 if group.name.endswith("linear") and "baseline" not in name else 1.0
    places = [(p, layer, a) for p in range(count) for layer in range(len(LAYERS)) for a in weights]
    means = np.array([mean_of(name, *place) for place in places]).reshape(count, len(LAYERS), len(weights))
    means = means * far if name.endswith("error") else 1 - far * (1 - means)
    width = 0.1 * np.abs(1 - means)
    edges = COSINE_EDGES if name.endswith(("cosine", "baseline")) else COEFFICIENT_EDGES
    bins = np.clip(np.searchsorted(edges[1:-1], means, side="right"), 0, len(edges) - 2)
    group[name] = np.stack([means, width, means - width, means, means + width], axis=-1)
    group[f"{name}_histogram"] = (POINTS * np.eye(len(edges) - 1)[bins]).astype(np.int16)
