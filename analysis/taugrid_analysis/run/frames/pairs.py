# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One row a regime and pair: how far two task vectors disturb each other, and what may predict it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.run.frames.columns import gathered
from taugrid_analysis.run.results import Results

GROUPS = (
    *("similarity", "disentanglement", "representation", "tau_jp", "pair_addition"),
    *("smoothness", "linearity"),
)
ORDER = (
    *("cosine", "sign_conflict", "mask_overlap", "loss_gap_1", "bound_1", "loss_gap_2", "bound_2"),
    *("loss_gap", "tau_jp", "tau_jp_12", "tau_jp_21", "tau_jp_validation", "linearity", "xi_one"),
    *("xi_box", "xi_grid", "xi_one_error", "xi_box_error", "xi_grid_error", "kl_one", "kl_box"),
    *("kl_grid", "symmetric_kl_one", "symmetric_kl_box", "symmetric_kl_grid", "ntk", "chosen_alpha"),
    *(
        "absolute",
        "absolute_error",
        "normalized",
        "normalized_error",
        "one_shot_absolute",
        "one_shot_absolute_error",
    ),
    *("one_shot_normalized", "one_shot_normalized_error"),
)


def pairs(results: Results) -> pd.DataFrame:
    """Index (regime, pair). What was not measured is NaN.

    task_1, task_2; cosine; sign_conflict, of the numbers that both vectors keep, and mask_overlap, of the
    places that either keeps; loss_gap_1, loss_gap_2 and bound_1, bound_2 of the bases paper, and loss_gap,
    the mean over both tasks; linearity: ‖u − v‖/‖f₁ − f₂‖ of the last layer at the α nearest ½, NaN of a
    linearised model, which is exact but for rounding; tau_jp and its two
    directions tau_jp_12 (τ of task 1 on points of task 2), tau_jp_21, on test points, and tau_jp_validation;
    xi_one, xi_box, xi_grid: ξ(1,1), mean over [0,1]², over the grid; kl_… and symmetric_kl_… the same of the
    encoder's outputs; ntk: share of the local energy beyond its null; chosen_alpha, absolute, normalized of
    the pair's sum, and one_shot_… at α = 1.
    """
    index = pd.Index([results.pair_name(pair) for pair in range(len(results.pairs))], name="pair")
    regimes = [
        name for name in results.regimes if any(results.twin(group, name) is not None for group in GROUPS)
    ]
    parts = {name: pd.DataFrame(_columns(results, name), index=index) for name in regimes}
    if not parts:
        return pd.DataFrame(index=pd.MultiIndex.from_tuples([], names=["regime", "pair"]))
    return pd.concat(parts, names=["regime"])


def _columns(results: Results, regime: str) -> dict[str, Array]:
    tasks = np.array(results.tasks, dtype=object)
    named = {f"task_{side + 1}": tasks[results.pairs[:, side]] for side in (0, 1)}
    return named | gathered("of_pairs", results, regime, ORDER)
