# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes a complete results.h5 whose numbers are known in closed form.

ξ's two terms depend on |α|·‖τ‖ of the other task alone, so that all regimes agree at matched norm and
differ at equal α by the ratio of their norms.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import synthetic_edits
import synthetic_layers
import synthetic_points

TASKS = ("fashion", "mnist5k", "animals", "letters", "scripts", "icon_context", "emoji", "clipart")
FEW_TASKS = TASKS[:4]  # as good as eight where every panel would be drawn for nothing
PAPER_TASKS = ("Cars", "DTD", "EuroSAT", "GTSRB", "MNIST", "RESISC45", "SUN397", "SVHN")
EVERY = (
    "standard",
    "posthoc",
    "linear",
    "attention",
    "attention_posthoc",
    "attention+bias",
    "attention+mlp",
    "attention+mlp+bias",
    "tau_jp",
    "tau_jp_strict",
    "tau_jp_incremental",
)
NORM = {"standard": 2.0, "linear": 1.0, "posthoc": 2.0}  # times 1 + t/10 for task t
ZERO_SHOT = (0.5, 0.7, 0.55, 0.6, 0.35, 0.3, 0.4, 0.25)
GAIN = {"standard": 0.25, "linear": 0.2}  # of fine-tuning
SLOPE = 0.05  # ξ's term a unit of |α|·‖τ‖


def pairs_of(count: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


PAIRS = pairs_of(len(TASKS))


def norms(regime: str, count: int = len(TASKS)) -> np.ndarray:
    return NORM.get(regime, 1.5) * (1 + np.arange(count) / 10)


def xi(regime: str, pair: tuple[int, int], first: Any, second: Any, bend: bool = False) -> np.ndarray:
    """The two terms at (α1, α2); straight up to 1 each, or a bent curve for a natural look."""
    size = norms(regime)
    steps = np.stack(np.broadcast_arrays(np.abs(second) * size[pair[1]], np.abs(first) * size[pair[0]]))
    if not bend:
        return np.asarray(np.minimum(SLOPE * steps, 1.0))
    level = 0.35 + 0.5 * ((7 * pair[0] + 3 * pair[1]) % 9) / 9
    shape = level * (1 - np.exp(-((steps / 3.2) ** 2)))
    own_steps = np.stack(np.broadcast_arrays(np.abs(first) * size[pair[0]], np.abs(second) * size[pair[1]]))
    sign = np.sign(np.asarray(first) * np.asarray(second))
    return np.asarray(np.clip(shape * (1 - 0.25 * np.exp(-((own_steps / 2) ** 2)) - 0.1 * sign), 0, 1))


def write(
    path: Path,
    *,
    regimes: Iterable[str] = ("standard", "linear"),
    tasks: tuple[str, ...] = TASKS,
    model: tuple[str, int, str] = ("clip_mini", 869632, "pretrained"),
    alpha: np.ndarray | None = None,
    leave_out: Iterable[str] = (),
    bend: bool = False,
    schema: int = 1,
    seed: int = 1,
    shift: float = 0.0,
    command: str = "taugrid run quickstart.toml --run-dir demo",
    pairs: list[tuple[int, int]] | None = None,
) -> Path:
    """leave_out: paths to delete at the end, groups or data sets.

    pairs: those that were measured, in this order; None is all of them. One task has none, and no /pairs.

    shift: added to the fine-tuned accuracies, half of it to those after addition, and ξ grows by that part.
    """
    rng = np.random.default_rng(0)
    grid = np.linspace(-3, 3, 13) if alpha is None else alpha
    regimes = list(regimes)
    with h5py.File(path, "w") as file:
        write_head(file, tasks, model, schema, command)
        file["provenance"].attrs["seed"] = seed
        count = len(tasks)
        _single(file, model[2], regimes, count, shift, rng)
        for regime in regimes:
            _similarity(file, regime, count, rng)
            _disentanglement(file, regime, count, grid, bend, shift, rng)
            _addition(file, regime, count, shift)
            spectrum = file.create_group(f"smoothness/{regime}")
            spectrum.attrs["method"] = "Lanczos"
            spectrum["lambda_max"] = 20.0 + 10 * np.arange(count) * NORM.get(regime, 1.5)
            spectrum["residual"] = np.full(count, 3e-4)
            spectrum["hvp_count"] = np.arange(9, 9 + count)
            _sample(spectrum, count, 128, rng)
            curve = 1.8 * np.exp(-np.arange(150) / 40)[None] + 0.3 + 0.1 * rng.random((count, 150))
            file[f"training/{regime}/loss"] = curve.astype(np.float32)
            file[f"training/{regime}/seconds"] = np.linspace(5, 9, count)
        _ntk(file, model[2], count, rng)
        synthetic_layers.write(file, regimes)
        synthetic_edits.write_groups(file, model[2], regimes, count, np.array(ZERO_SHOT[:count]))
        synthetic_points.write_rows(file)
        if schema >= 2:
            synthetic_points.write_schema_2(file)
        _units(file, regimes, count)
        if pairs is not None or count == 1:
            _keep(file, pairs or [], count)
        for name in leave_out:
            del file[name]
    return path


def _keep(file: h5py.File, pairs: list[tuple[int, int]], count: int) -> None:
    """Only these pairs; where one is the other way round, its sides are exchanged."""
    every = pairs_of(count)
    rows = [every.index((min(pair), max(pair))) for pair in pairs]
    turned = [first > second for first, second in pairs]

    def replace(path: str, axis: int, sides: int | None = None, grid: bool = False) -> None:
        kept = np.take(file[path][()], rows, axis=axis)
        for place, turn in enumerate(turned):
            if turn and sides is not None:
                kept[place] = np.flip(kept[place], axis=sides - 1)
            if turn and grid:
                kept[place] = np.swapaxes(kept[place], -1, -2)
        attributes = dict(file[path].attrs)
        if "points" in attributes:
            attributes["points"] = np.take(attributes["points"], rows, axis=axis)
        del file[path]
        file[path] = kept
        file[path].attrs.update(attributes)

    for group in ("disentanglement", "representation"):
        for regime in file[group]:
            for name in ("error", "symmetric_error"):
                if name in file[f"{group}/{regime}"]:
                    replace(f"{group}/{regime}/{name}", 0, grid=True)
                    replace(f"{group}/{regime}/{name}_by_task", 0, sides=1, grid=True)
    for group in ("linearity", "layer_addition"):
        for regime in file[group]:
            for name, values in file[f"{group}/{regime}"].items():
                if values.ndim > 1:
                    replace(f"{group}/{regime}/{name}", 0)
    for regime in file["similarity"]:
        replace(f"similarity/{regime}/loss_gap", 0, sides=1)
    for group in ("pair_addition", "correct/pair_addition"):
        for regime in file.get(group, {}):
            for name in set(file[f"{group}/{regime}"]) - {"alpha", "sample_index", "validation_sample_index"}:
                replace(f"{group}/{regime}/{name}", 0, sides=2 if "accuracy" in name else None)
    replace("continuation/tau_jp_continue/pair_normalized", 1)
    del file["pairs"]
    if count > 1:
        file["pairs/tasks"] = np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _text(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=h5py.string_dtype())


def _sample(group: h5py.Group, count: int, points: int, rng: np.random.Generator) -> None:
    group["sample_index"] = np.sort(rng.integers(0, 2000, (count, points)), axis=1)


def write_head(
    file: h5py.File, tasks: tuple[str, ...], model: tuple[str, int, str], schema: int, command: str
) -> None:
    """What stands in every file, whatever was measured."""
    file.attrs["schema_version"] = schema
    file.attrs["taugrid_version"] = "0.1.0"
    file.attrs["command_line"] = command
    file.attrs["git_revision"] = "0123456789abcdef0123456789abcdef01234567"
    file.attrs["started_utc"] = "2026-01-02T03:04:05Z"
    file.attrs["finished_utc"] = "2026-01-02T03:09:25Z"
    file["tasks/name"] = _text(tasks)
    file["tasks/classes"] = np.array([10, 10, 10, 10, 20, 9, 9, 12][: len(tasks)], dtype=np.int64)
    file["pairs/tasks"] = np.array(pairs_of(len(tasks)), dtype=np.int64).reshape(-1, 2)
    group = file.create_group("model")
    group.attrs["architecture"] = "CLIPVisionModelWithProjection"
    group.attrs["name"], group.attrs["parameters"], group.attrs["init"] = model
    group.attrs["fingerprint"] = hashlib.sha256(b"theta0").hexdigest()
    facts = file.create_group("provenance")
    for key, value in {
        "hosts": ["node01", "node01", "node02", "node02"],
        "ranks": 4,
        "compiler": "g++ 12.2.0",
        "build_type": "Release",
    }.items():
        facts.attrs[key] = value


def _single(
    file: h5py.File, start: str, regimes: list[str], count: int, shift: float, rng: np.random.Generator
) -> None:
    base = np.array(ZERO_SHOT[:count])
    gains = {start: 0.0} | {name: GAIN.get(name, 0.15) + shift for name in regimes}
    for name, gain in gains.items():
        group = file.create_group(f"single_task/{name}")
        group["accuracy"] = base + gain
        group["loss"] = 1.5 - base - gain
        _sample(group, count, 512, rng)


def _similarity(file: h5py.File, regime: str, count: int, rng: np.random.Generator) -> None:
    group = file.create_group(f"similarity/{regime}")
    near = np.exp(-np.abs(np.subtract.outer(np.arange(count), np.arange(count))))
    cosine = np.eye(count) + (1 - np.eye(count)) * 0.3 * near
    group["cosine"] = cosine
    group["norm"] = norms(regime, count)
    group["norm_ratio"] = norms(regime, count) / 40
    group.attrs["alpha"] = 0.5
    group["sign_conflict"] = 0.5 * (1 - cosine)
    group["sign_conflict_all"] = 0.5 - 0.1 * cosine
    group["mask_overlap"] = 0.2 / 1.8 + (1 - 0.2 / 1.8) * cosine
    group["mask_density"] = np.full(count, 0.2)
    group.attrs["density"] = 0.2
    lam = 20.0 + 10 * np.arange(count) * NORM.get(regime, 1.5)
    gaps = [[0.002 * lam[i] + 0.01 * j, 0.002 * lam[j] + 0.01 * i] for i, j in pairs_of(count)]
    group["loss_gap"] = np.array(gaps).reshape(-1, 2)
    group["loss_gap"].attrs["units"] = "nats"
    _sample(group, count, 256, rng)


def _disentanglement(
    file: h5py.File,
    regime: str,
    count: int,
    alpha: np.ndarray,
    bend: bool,
    shift: float,
    rng: np.random.Generator,
) -> None:
    group = file.create_group(f"disentanglement/{regime}")
    group.attrs["metric"] = "disagreement"
    first, second = np.meshgrid(alpha, alpha, indexing="ij")
    terms = np.array([xi(regime, pair, first, second, bend) for pair in pairs_of(count)])
    terms = terms.reshape(-1, 2, *first.shape)
    terms *= 1 + shift
    if bend:
        terms = rng.binomial(256, terms) / 256
    group["error_by_task"] = terms
    group["error"] = terms.sum(axis=1)
    group["alpha"] = alpha
    _sample(group, count, 256, rng)


def _addition(file: h5py.File, regime: str, count: int, shift: float) -> None:
    group = file.create_group(f"addition/{regime}")
    alpha = np.linspace(0, 1, 21)
    peak = 0.35 if regime == "standard" else 0.5
    curve = 0.46 + 0.15 * np.exp(-(((alpha - peak) / 0.3) ** 2)) - 0.1 * alpha + shift / 2
    spread = np.linspace(-0.1, 0.1, count)
    group["alpha"] = alpha
    group["validation_accuracy"] = curve[:, None] + spread
    group["test_accuracy"] = curve[:, None] + spread - 0.01
    best = int(curve.argmax())
    group["chosen_alpha"] = alpha[best]
    group["absolute"] = curve[best] - 0.01
    group["normalized"] = (curve[best] - 0.01) / 0.7
    group["one_shot_absolute"] = curve[-1] - 0.01
    group["one_shot_normalized"] = (curve[-1] - 0.01) / 0.7


def _ntk(file: h5py.File, start: str, count: int, rng: np.random.Generator) -> None:
    """Own points hold 0.8 of the energy, the control's 0.2; the last task has 3 logits of 4."""
    points = 16
    noise = 0.9 + 0.2 * rng.random((count, count, 4, 2 * points))
    energy = noise * np.repeat([0.8, 0.2], points)
    for half in (slice(0, points), slice(points, None)):
        part = energy[..., half]
        part *= (0.8 if half.start == 0 else 0.2) / part.mean(axis=-1, keepdims=True)
    energy[-1, :, 3] = np.nan
    file[f"ntk/{start}/local_energy"] = energy
    file[f"ntk/{start}/gram"] = np.zeros((count, 4, points, count, points), dtype=np.float32)
    _sample(file[f"ntk/{start}"], count, points, rng)


def _units(file: h5py.File, regimes: list[str], count: int) -> None:
    kinds = [("finetune", 6.0), ("disentanglement", 1.2), ("ntk", 3.0), ("smoothness", 2.0)]
    rows = [
        (f"{kind}/{regime}/{index}", (index + place) % 4, seconds * (1 + index / 40), "cpu")
        for regime in regimes
        for place, (kind, seconds) in enumerate(kinds)
        for index in range(len(pairs_of(count)) if kind == "disentanglement" else count)
    ]
    string = h5py.string_dtype()
    layout = np.dtype([("key", string), ("rank", "i4"), ("seconds", "f8"), ("device", string)])
    file["units"] = np.array(rows, dtype=layout)
