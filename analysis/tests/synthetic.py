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

TASKS = ("fashion", "mnist5k", "animals", "letters", "scripts", "icon_context", "emoji", "clipart")
PAPER_TASKS = ("Cars", "DTD", "EuroSAT", "GTSRB", "MNIST", "RESISC45", "SUN397", "SVHN")
NORM = {"standard": 2.0, "linear": 1.0, "posthoc": 2.0}  # times 1 + t/10 for task t
SLOPE = 0.05  # ξ's term a unit of |α|·‖τ‖
PAIRS = [(i, j) for i in range(8) for j in range(i + 1, 8)]


def norms(regime: str) -> np.ndarray:
    return NORM.get(regime, 1.5) * (1 + np.arange(8) / 10)


def xi(regime: str, pair: tuple[int, int], first: Any, second: Any, bend: bool = False) -> np.ndarray:
    """The two terms at (α1, α2); straight up to 1 each, or a bent curve for a natural look."""
    size = norms(regime)
    steps = np.stack(np.broadcast_arrays(np.abs(second) * size[pair[1]], np.abs(first) * size[pair[0]]))
    if not bend:
        return np.asarray(np.minimum(SLOPE * steps, 1.0))
    level = 0.35 + 0.5 * ((7 * pair[0] + 3 * pair[1]) % 9) / 9
    shape = level * (1 - np.exp(-((steps / 3.2) ** 2)))
    own = np.stack(np.broadcast_arrays(np.abs(first) * size[pair[0]], np.abs(second) * size[pair[1]]))
    sign = np.sign(np.asarray(first) * np.asarray(second))
    return np.asarray(np.clip(shape * (1 - 0.25 * np.exp(-((own / 2) ** 2)) - 0.1 * sign), 0, 1))


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
) -> Path:
    """leave_out: paths to delete at the end, groups or data sets."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-3, 3, 13) if alpha is None else alpha
    regimes = list(regimes)
    with h5py.File(path, "w") as file:
        _head(file, tasks, model, schema)
        _single(file, ["pretrained", *regimes], rng)
        for regime in regimes:
            _similarity(file, regime, rng)
            _disentanglement(file, regime, grid, bend, rng)
            _addition(file, regime)
            spectrum = file.create_group(f"smoothness/{regime}")
            spectrum.attrs["method"] = "Lanczos"
            spectrum["lambda_max"] = 20.0 + 10 * np.arange(8) * NORM.get(regime, 1.5)
            spectrum["residual"] = np.full(8, 3e-4)
            spectrum["hvp_count"] = np.arange(9, 17)
            _sample(spectrum, 128, rng)
            curve = 1.8 * np.exp(-np.arange(150) / 40)[None] + 0.3 + 0.1 * rng.random((8, 150))
            file[f"training/{regime}/loss"] = curve.astype(np.float32)
            file[f"training/{regime}/seconds"] = np.linspace(5, 9, 8)
        _ntk(file, model[2], rng)
        _units(file, regimes)
        for name in leave_out:
            del file[name]
    return path


def _text(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=h5py.string_dtype())


def _sample(group: h5py.Group, points: int, rng: np.random.Generator) -> None:
    group["sample_index"] = np.sort(rng.integers(0, 2000, (8, points)), axis=1)


def _head(file: h5py.File, tasks: tuple[str, ...], model: tuple[str, int, str], schema: int) -> None:
    file.attrs["schema_version"] = schema
    file.attrs["taugrid_version"] = "0.1.0"
    file.attrs["git_revision"] = "0123456789abcdef0123456789abcdef01234567"
    file.attrs["command_line"] = "taugrid run quickstart.toml --run-dir demo"
    file.attrs["started_utc"] = "2026-01-02T03:04:05Z"
    file.attrs["finished_utc"] = "2026-01-02T03:09:25Z"
    file["tasks/name"] = _text(tasks)
    file["tasks/classes"] = np.array([10, 10, 10, 10, 20, 9, 9, 12], dtype=np.int64)
    file["pairs/tasks"] = np.array(PAIRS, dtype=np.int64)
    group = file.create_group("model")
    group.attrs["architecture"] = "CLIPVisionModelWithProjection"
    group.attrs["name"], group.attrs["parameters"], group.attrs["init"] = model
    group.attrs["fingerprint"] = hashlib.sha256(b"theta0").hexdigest()
    facts = file.create_group("provenance")
    for key, value in {
        "hosts": ["node01", "node02"],
        "ranks": 4,
        "seeds": [1],
        "compiler": "g++ 12.2.0",
        "build_type": "Release",
    }.items():
        facts.attrs[key] = value


def _single(file: h5py.File, names: list[str], rng: np.random.Generator) -> None:
    base = np.array([0.5, 0.7, 0.55, 0.6, 0.35, 0.3, 0.4, 0.25])
    gain = {"pretrained": 0.0, "standard": 0.25, "linear": 0.2}
    for name in names:
        group = file.create_group(f"single_task/{name}")
        group["accuracy"] = base + gain.get(name, 0.15)
        group["loss"] = 1.5 - base - gain.get(name, 0.15)
        _sample(group, 512, rng)


def _similarity(file: h5py.File, regime: str, rng: np.random.Generator) -> None:
    group = file.create_group(f"similarity/{regime}")
    near = np.exp(-np.abs(np.subtract.outer(np.arange(8), np.arange(8))))
    cosine = np.eye(8) + (1 - np.eye(8)) * 0.3 * near
    group["cosine"] = cosine
    group["norm"] = norms(regime)
    group["norm_ratio"] = norms(regime) / 40
    group.attrs["alpha"] = 0.5
    lam = 20.0 + 10 * np.arange(8) * NORM.get(regime, 1.5)
    group["loss_gap"] = np.array([[0.002 * lam[i] + 0.01 * j, 0.002 * lam[j] + 0.01 * i] for i, j in PAIRS])
    group["loss_gap"].attrs["units"] = "nats"
    _sample(group, 256, rng)


def _disentanglement(
    file: h5py.File, regime: str, alpha: np.ndarray, bend: bool, rng: np.random.Generator
) -> None:
    group = file.create_group(f"disentanglement/{regime}")
    group.attrs["metric"] = "disagreement"
    first, second = np.meshgrid(alpha, alpha, indexing="ij")
    terms = np.stack([xi(regime, pair, first, second, bend) for pair in PAIRS])
    if bend:
        terms = rng.binomial(256, terms) / 256
    group["error_by_task"] = terms
    group["error"] = terms.sum(axis=1)
    group["alpha"] = alpha
    _sample(group, 256, rng)


def _addition(file: h5py.File, regime: str) -> None:
    group = file.create_group(f"addition/{regime}")
    alpha = np.linspace(0, 1, 21)
    peak = 0.35 if regime == "standard" else 0.5
    curve = 0.46 + 0.15 * np.exp(-(((alpha - peak) / 0.3) ** 2)) - 0.1 * alpha
    spread = np.linspace(-0.1, 0.1, 8)
    group["alpha"] = alpha
    group["validation_accuracy"] = curve[:, None] + spread
    group["test_accuracy"] = curve[:, None] + spread - 0.01
    best = int(curve.argmax())
    group["chosen_alpha"] = alpha[best]
    group["absolute"] = curve[best] - 0.01
    group["normalized"] = (curve[best] - 0.01) / 0.7
    group["one_shot_absolute"] = curve[-1] - 0.01
    group["one_shot_normalized"] = (curve[-1] - 0.01) / 0.7


def _ntk(file: h5py.File, start: str, rng: np.random.Generator) -> None:
    """Own points hold 0.8 of the energy, the control's 0.2; the last task has 3 logits of 4."""
    points = 16
    noise = 0.9 + 0.2 * rng.random((8, 8, 4, 2 * points))
    energy = noise * np.repeat([0.8, 0.2], points)
    for half in (slice(0, points), slice(points, None)):
        part = energy[..., half]
        part *= (0.8 if half.start == 0 else 0.2) / part.mean(axis=-1, keepdims=True)
    energy[7, :, 3] = np.nan
    file[f"ntk/{start}/local_energy"] = energy
    file[f"ntk/{start}/gram"] = np.zeros((8, 4, points, 8, points), dtype=np.float32)
    _sample(file[f"ntk/{start}"], points, rng)


def _units(file: h5py.File, regimes: list[str]) -> None:
    kinds = [("finetune", 6.0), ("disentanglement", 1.2), ("ntk", 3.0), ("smoothness", 2.0)]
    rows = [
        (f"{kind}/{regime}/{index}", (index + place) % 4, seconds * (1 + index / 40), "cpu")
        for regime in regimes
        for place, (kind, seconds) in enumerate(kinds)
        for index in range(28 if kind == "disentanglement" else 8)
    ]
    string = h5py.string_dtype()
    layout = np.dtype([("key", string), ("rank", "i4"), ("seconds", "f8"), ("device", string)])
    file["units"] = np.array(rows, dtype=layout)
