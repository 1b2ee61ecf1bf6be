# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The groups about edited models in a synthetic results.h5, in closed form."""

from __future__ import annotations

import h5py
import numpy as np

LINEAR = ("linear", "posthoc", "attention_posthoc", "tau_jp", "tau_jp_strict", "tau_jp_incremental")
LEVEL = {"tau_jp": 0.2, "tau_jp_strict": 0.1}  # of τJp, times the form below
CONTROL = 0.6  # θ0's accuracy on the control
THRESHOLD = 0.95
UNION = np.unique(np.round(np.concatenate([np.linspace(0, 1, 21), np.linspace(0, 3, 31)]), 10))
STEPS = np.array([0, 10, 20, 50, 100])
POINTS = 16  # of the NTK


def product(regime: str, count: int) -> np.ndarray:
    """[a,b]: more on the diagonal, and not symmetric."""
    a, b = np.meshgrid(np.arange(count), np.arange(count), indexing="ij")
    return LEVEL.get(regime, 2.0) * (1 + a / 10 + b * b / 40 + 4 * (a == b))


def between(regime: str, count: int) -> np.ndarray:
    """The mean of both directions of every pair."""
    value = product(regime, count)
    return np.array([(value[i, j] + value[j, i]) / 2 for i in range(count) for j in range(i + 1, count)])


def write_groups(file: h5py.File, start: str, regimes: list[str], count: int, zero_shot: np.ndarray) -> None:
    single = file[f"single_task/{start}"]
    single["control_accuracy"] = CONTROL
    single["control_validation_accuracy"] = CONTROL + 0.01
    pairs = count * (count - 1) // 2
    for regime in regimes:
        _negation(file, regime, count, zero_shot)
        _merging(file, regime, count)
        _subsets(file, regime, count)
        _pair_addition(file, regime, count)
        _representation(file, regime)
        if regime in LINEAR:
            file[f"tau_jp/{regime}/value"] = product(regime, count)
            file[f"tau_jp/{regime}/control"] = np.full(count, 0.5 * LEVEL.get(regime, 2.0))
        if regime not in ("posthoc", "attention_posthoc"):
            _cost(file, regime)
    for name in ("multitask", "multitask_linear"):
        file[f"training/{name}/loss"] = np.linspace(2, 1, 150).astype(np.float32)
        file[f"training/{name}/seconds"] = 7.5
        group = file.create_group(f"multitask/{name}")
        group["accuracy"] = zero_shot + 0.15
        group["validation_accuracy"] = zero_shot + 0.16
        group["loss"] = 1.2 - zero_shot
    fall = np.exp(-STEPS / 30)
    group = file.create_group("continuation/tau_jp_continue")
    group["step"] = STEPS
    group["tau_jp"] = product("linear", count) * fall[:, None, None]
    group["pair_normalized"] = 1 - 0.02 * fall[:, None] * between("linear", count)
    group["normalized"] = 1 - 0.3 * fall
    spectrum = np.broadcast_to(2.0 ** -np.arange(POINTS), (count, 4, POINTS)).copy()
    spectrum[-1, 3] = np.nan
    file[f"ntk/{start}/eigenvalues"] = spectrum
    assert group["pair_normalized"].shape == (len(STEPS), pairs)


def forgotten(count: int, zero_shot: np.ndarray) -> np.ndarray:
    """[T,A] target accuracy at −α."""
    return zero_shot[:count, None] * np.exp(-UNION)


def kept(regime: str, count: int) -> np.ndarray:
    """[T,A] control accuracy at −α; a later task disturbs it more."""
    harm = 0.02 if regime in LINEAR else 0.05
    return CONTROL * (1 - harm * (1 + np.arange(count) / 4)[:, None] * UNION**2)


MERGES = {"linear": "linear", "ties": "ties", "ties_sum": "ties"}  # name: the method that it stands for
MERGE_BYTES = 1e6


def _merging(file: h5py.File, regime: str, count: int) -> None:
    """Each later method is better and dearer; of [merging] methods in this order."""
    single = file[f"single_task/{regime}/accuracy"][()]
    for place, (name, of) in enumerate(MERGES.items()):
        group = file.create_group(f"merging/{name}/{regime}")
        group.attrs["method"] = of
        group["alpha"] = np.array([1.0, 2.0])
        test = np.stack([0.5 * single, (0.6 + 0.05 * place) * single])
        group["validation_accuracy"], group["test_accuracy"], group["accuracy"] = test, test, test[1]
        group["absolute"], group["normalized"] = test[1].mean(), (test[1] / single).mean()
        group["coefficient"], group["density"] = 2.0, 1 / (place + 1)
        group["passes"], group["bytes"] = place + 1.0, (place + 1) * MERGE_BYTES
        group["seconds"] = 0.5 * (place + 1)
        group["forward_passes"], group["backward_passes"] = 0.0, 0.0
        group["sample_index"] = np.tile(np.arange(256), (count, 1))


def _subsets(file: h5py.File, regime: str, count: int) -> None:
    """Each task alone, then all: 0.9 of what one of them has."""
    sets = np.concatenate([np.eye(count), np.ones((1, count))]).astype(np.uint8)
    group = file.create_group(f"subsets/{regime}")
    group.attrs["merge"] = "task_arithmetic"
    group["alpha"], group["sets"] = np.array([0.5, 1.0]), sets
    group["validation_accuracy"] = 0.5 + 0.2 * np.broadcast_to(sets[:, None], (count + 1, 2, count))
    alone = sets.sum(axis=1) == 1
    normalized = np.where(alone, 1.0, 0.9)
    group["coefficient"], group["normalized"] = np.where(alone, 1.0, 0.5), normalized
    group["accuracy"] = np.where(sets, 0.8 * normalized[:, None], np.nan)
    group["absolute"] = 0.8 * normalized


def _negation(file: h5py.File, regime: str, count: int, zero_shot: np.ndarray) -> None:
    group = file.create_group(f"negation/{regime}")
    group.attrs["control"], group.attrs["control_threshold"] = "textures", THRESHOLD
    target, control = forgotten(count, zero_shot), kept(regime, count)
    group["alpha"] = UNION
    group["validation_target"], group["validation_control"] = target + 0.01, control + 0.01
    group["test_target"], group["test_control"] = target, control
    for parent, searched in ((group, UNION <= 1), (group.create_group("wide"), np.isin(UNION, WIDE))):
        allowed = searched & (control + 0.01 >= THRESHOLD * (CONTROL + 0.01))
        chosen = [np.flatnonzero(row)[-1] for row in allowed]  # target falls with α
        parent["chosen_alpha"] = UNION[chosen]
        parent["target"] = target[np.arange(count), chosen]
        parent["control"] = control[np.arange(count), chosen]


WIDE = np.round(np.linspace(0, 3, 31), 10)


def _pair_addition(file: h5py.File, regime: str, count: int) -> None:
    """Normalised accuracy falls with τJp on a straight line, that at α = 1 on a bent one."""
    group = file.create_group(f"pair_addition/{regime}")
    alpha = np.linspace(0, 1, 21)
    normalized = 1 - 0.05 * between(regime, count) / LEVEL.get(regime, 2.0)
    pairs = len(normalized)
    curve = np.exp(-((alpha - 0.6) ** 2))[None, :, None] * normalized[:, None, None] * [0.6, 0.7]
    group["alpha"] = alpha
    group["validation_accuracy"], group["test_accuracy"] = curve, curve - 0.01
    group["chosen_alpha"] = np.full(pairs, alpha[12])
    group["absolute"], group["normalized"] = 0.7 * normalized, normalized
    group["one_shot_absolute"], group["one_shot_normalized"] = 0.7 * normalized**3, normalized**3


def _representation(file: h5py.File, regime: str) -> None:
    """A quarter of the square of the predictions' error."""
    other = file[f"disentanglement/{regime}"]
    group = file.create_group(f"representation/{regime}")
    group.attrs["metric"] = "kl"
    group["alpha"] = other["alpha"][()]
    group["error_by_task"] = other["error_by_task"][()] ** 2 / 4
    group["error"] = group["error_by_task"][()].sum(axis=1)


def _cost(file: h5py.File, regime: str) -> None:
    group = file.create_group(f"cost/{regime}")
    group.attrs["batch"] = 64
    linear, share = regime in LINEAR, 0.25 if regime.startswith("attention") else 1.0
    group["parameters"] = 869632
    group["trainable_parameters"] = int(869632 * share)
    group["optimiser_memory"] = 8 * int(869632 * share)
    group["peak_memory"] = 40_000_000 * (2 if linear else 1)
    group["seconds_per_step"] = 0.02 * (1.6 if linear else 1.0)
    group["forward_flops"], group["jvp_flops"], group["step_flops"] = 1e9, 3e9, 4e9 * (2 if linear else 1)
