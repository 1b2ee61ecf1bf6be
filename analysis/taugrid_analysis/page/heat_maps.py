# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers behind the report's heat maps, packed for the page: whoever points at a cell reads them.

Each key is the gid of the axes that draw the map; templates/report.js reads what is packed here.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.quantities.disentanglement import xi
from taugrid_analysis.quantities.disentanglement.figures import earlier_later
from taugrid_analysis.quantities.ntk import shares
from taugrid_analysis.run.opened import Run

Packed = dict[str, Any]


def packed_bytes(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _numbers(values: Array, kind: str) -> Packed:
    """kind: uint16 or float32, little-endian."""
    order = {"uint16": "<u2", "float32": "<f4"}[kind]
    return {"type": kind, "data": packed_bytes(np.ascontiguousarray(values, dtype=order).tobytes())}


def heat_maps(run: Run, drawn: Mapping[str, xr.Dataset]) -> dict[str, Packed]:
    """key: map. A grid's cells are [pair, side, α1, α2]; a matrix' [row, column]. drawn: regimes' grids."""
    maps = {f"xi/{regime}": _grid(run, regime, grid) for regime, grid in drawn.items()}
    for regime in run.results.names("similarity"):
        vectors = run.data("similarity", regime)
        if vectors is not None:
            exact = "of the vectors themselves: no sampling error"
            for matrix in ("cosine", "sign_conflict", "mask_overlap"):
                if matrix not in vectors:
                    continue
                values = vectors[matrix].to_numpy().astype(float)
                np.fill_diagonal(values, np.nan)
                quantity, roles = matrix.replace("_", " "), ("τ of", "τ of")
                maps[f"{matrix}/{regime}"] = _matrix(run, regime, quantity, values, roles, None, exact)
    for regime in run.results.names("tau_jp"):
        product = run.data("tau_jp", regime)
        if product is not None:
            values = product["value"].to_numpy()
            names = list(run.results.tasks)
            if "control" in product:
                values, names = (
                    np.concatenate([values, product["control"].to_numpy()[:, None]], axis=1),
                    [*names, "control"],
                )
            unknown = "error not known: no values of single points are stored"
            maps[f"tau_jp/{regime}"] = _matrix(
                run, regime, "‖J(x)τ‖²", values, ("τ of", "x of"), None, unknown, names
            )
    for start in run.results.names("ntk"):
        kernel = run.data("ntk", start)
        if kernel is not None:
            maps[f"ntk/{start}"] = _kernel(run, start, kernel)
    return maps


def _grid(run: Run, regime: str, grid: xr.Dataset) -> Packed:
    """Counts of points where ξ counts them, so that the page works out value and error; else the terms."""
    chosen, counts = np.array(earlier_later(run)), xi.points(grid)
    terms = grid["error_by_task"].to_numpy().astype(float)
    packed: Packed = {
        "kind": "grid",
        "title": regime,
        "quantity": "ξ" if xi.is_share(grid) else xi.metric(grid),
        "alpha": grid["alpha_1"].to_numpy().tolist(),
        "tasks": [[run.results.tasks[task] for task in pair] for pair in chosen],
        "points": None,
        "note": "error not known",
    }
    errors = xi.mean_errors(grid, chosen)
    if counts is not None and errors is not None:
        many = counts[chosen][:, :, None, None]
        wrong = terms * many
        known = np.isfinite(wrong)
        if np.abs((wrong - wrong.round())[known]).max(initial=0) < 1e-6 and counts.max() < 2**16:
            packed["points"] = counts[chosen].tolist()
            packed["mean_error"] = _numbers(errors, "float32")
            return packed | _numbers(wrong.round(), "uint16" if known.all() else "float32")
    return packed | _numbers(terms, "float32")


def _matrix(
    run: Run,
    title: str,
    quantity: str,
    values: Array,
    roles: tuple[str, str],
    errors: Array | None,
    note: str,
    columns: list[str] | None = None,
) -> Packed:
    packed: Packed = {
        "kind": "matrix",
        "title": title,
        "quantity": quantity,
        "roles": list(roles),
        "rows": list(run.results.tasks),
        "columns": columns if columns is not None else list(run.results.tasks),
        "note": note,
    }
    if errors is not None:
        packed["errors"] = _numbers(errors, "float32")
    return packed | _numbers(values, "float32")


def _kernel(run: Run, start: str, kernel: xr.Dataset) -> Packed:
    """Own share less its null, with the null's deviation over draws; the share alone without a null."""
    share, null = shares.own_share(kernel["local_energy"].to_numpy()), shares.null_share(kernel)
    roles = ("trained on", "control")
    if null is None:
        return _matrix(run, start, "own share", share, roles, None, "its null was not measured")
    errors = np.broadcast_to(null[1][:, None], share.shape)
    note = "± the null's deviation over its draws"
    return _matrix(run, start, "own share − null", share - null[0][:, None], roles, errors, note)
