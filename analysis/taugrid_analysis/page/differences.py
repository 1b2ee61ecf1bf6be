# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The file of `taugrid diff --json` as heat maps: how far two models are apart, by kind and layer."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import regular, visible
from taugrid_analysis.numbers.arrays import Floats
from taugrid_analysis.page import style

WRITER = "a file of taugrid diff --json"
SCHEMA = 1
KINDS_MOST = 120
LAYERS_MOST = 1000
LABEL_MOST = 48


@dataclass
class Sums:
    """What tensors of one kind and layer add up to: squared norms and the inner product of a and b."""

    aa: float = 0.0
    bb: float = 0.0
    dd: float = 0.0
    ab: float = 0.0

    def add(self, tensor: dict[str, Any]) -> None:
        a, b = (_number(tensor, name) for name in ("norm_a", "norm_b"))
        cosine = tensor.get("cosine")
        self.aa += a**2
        self.bb += b**2
        self.dd += _number(tensor, "norm_of_difference") ** 2
        self.ab += 0.0 if cosine is None else a * b * _number(tensor, "cosine")

    @property
    def relative(self) -> float:
        """‖b − a‖ / ‖a‖."""
        return math.sqrt(self.dd / self.aa) if self.aa > 0 else math.nan

    @property
    def cosine(self) -> float:
        return self.ab / math.sqrt(self.aa * self.bb) if self.aa * self.bb > 0 else math.nan


@dataclass
class Differences:
    title: str
    kinds: list[str]
    layers: list[int | None]  # None: outside layers
    relative: Floats  # [kind, layer]; NaN where there is no such tensor
    cosine: Floats


def read(path: Path) -> Differences:
    """Reads what the program wrote. Raises InputError."""
    try:
        document = json.loads(regular(path, WRITER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read ({error})", path, WRITER) from error
    try:
        if document["schema_version"] != SCHEMA:
            raise InputError(f"is of schema {document['schema_version']}", path, f"{SCHEMA}")
        cells: dict[tuple[str, int | None], Sums] = {}
        for tensor in document["tensors"]:
            layer = tensor["layer"]
            place = (str(tensor["kind"]), None if layer is None else int(layer))
            cells.setdefault(place, Sums()).add(tensor)
        vectors = f"task vectors from {document['base']}: " if document["base"] is not None else ""
        title = f"{vectors}{document['a']} and {document['b']}"
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"has no {error}" if isinstance(error, KeyError) else str(error), path, WRITER
        ) from error
    kinds = list(dict.fromkeys(kind for kind, _ in cells))
    layers = sorted({layer for _, layer in cells}, key=lambda layer: -1 if layer is None else layer)
    if not kinds or len(kinds) > KINDS_MOST or len(layers) > LAYERS_MOST:
        problem = f"has {len(kinds)} kinds of tensors in {len(layers)} layers"
        raise InputError(problem, path, f"1 to {KINDS_MOST} and at most {LAYERS_MOST}")
    relative, cosine = (np.full((len(kinds), len(layers)), np.nan) for _ in range(2))
    for (kind, layer), sums in cells.items():
        at = kinds.index(kind), layers.index(layer)
        relative[at], cosine[at] = sums.relative, sums.cosine
    return Differences(title, kinds, layers, relative, cosine)


def figure(differences: Differences) -> Figure:
    """Two maps side by side: ‖b − a‖ / ‖a‖, and the cosine of a and b."""
    with style.settings():
        height = 1.4 + 0.2 * len(differences.kinds)
        picture = Figure((style.PAGE, min(height, 4 * style.PAGE)))
        left, right = picture.subplots(1, 2, sharey=True)
        most = float(np.nanmax(differences.relative)) if np.isfinite(differences.relative).any() else 1.0
        _map(left, differences, differences.relative, style.ERROR_MAP, (0.0, most or 1.0), "‖b − a‖ / ‖a‖")
        _map(right, differences, differences.cosine, style.SIGNED_MAP, (-1.0, 1.0), "cosine of a and b")
        left.set_yticks(
            range(len(differences.kinds)), [_label(kind) for kind in differences.kinds], fontsize=7
        )
        picture.suptitle(visible(differences.title), fontsize=9)
        return picture


def _map(
    axes: Axes,
    differences: Differences,
    values: Floats,
    colours: Colormap,
    limits: tuple[float, float],
    title: str,
) -> None:
    mesh = axes.imshow(
        values, cmap=colours, vmin=limits[0], vmax=limits[1], aspect="auto", interpolation="nearest"
    )
    axes.set_title(title)
    axes.set_xlabel("layer (−: outside layers)")
    step = -(-len(differences.layers) // 24)
    places = range(0, len(differences.layers), step)
    axes.set_xticks(
        places,
        ["−" if differences.layers[i] is None else f"{differences.layers[i]}" for i in places],
        fontsize=7,
    )
    assert axes.figure is not None
    axes.figure.colorbar(mesh, ax=axes, shrink=0.8)


def _label(kind: str) -> str:
    kind = visible(kind)
    return kind if len(kind) <= LABEL_MOST else f"…{kind[-LABEL_MOST:]}"


def _number(tensor: dict[str, Any], name: str) -> float:
    value = tensor[name]
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} of {tensor.get('name')} is {value}")
    return float(value)
