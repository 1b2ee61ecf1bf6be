# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity by layer (paper 5, section 3; no units).

u = f^l(αθ_i + (1−α)θ_j) against v = α f^l(θ_i) + (1−α) f^l(θ_j), f^l the features after layer l. cosine: ⟨u,
v⟩/(‖u‖ ‖v‖); coefficient: ⟨u, v⟩/‖v‖²; baseline: the cosine of f^l(θ_i) and f^l(θ_j); centred_…: the same of
differences from θ0's features; error: ‖u − v‖/‖f^l(θ_i) − f^l(θ_j)‖; class_…: of the class token alone.
/linearity/R/… [pair, layer, alpha, statistic] over points (mean, deviation, quartiles) and …_histogram.
/layer_addition and /layer_negation: the same of θ0 + λ(τ_i + τ_j) against θ0 + 2λτ, and of θ0 against θ0 ±
λτ; /layer_averages: of the mean of several models' weights (equation 1).
"""

from __future__ import annotations

from taugrid_analysis.run.group import ALPHA, ROWS, TASK, Group, Variable, alike

QUANTITIES = tuple(
    f"{token}{name}"
    for token in ("", "class_")
    for name in (
        *("cosine", "coefficient", "baseline"),
        *("centred_cosine", "centred_coefficient", "centred_baseline", "error"),
    )
)
# Where u is f(θ0), what is centred of it is nothing.
NEGATED = tuple(n for n in QUANTITIES if not n.endswith(("centred_cosine", "centred_coefficient")))


def layered(names: tuple[str, ...], first: str, *axis: str) -> dict[str, Variable]:
    """Statistics and histogram of each quantity, by layer and coefficient, if there is one."""
    dims, variables = (first, "layer", *axis), {}
    for name in names:
        needed = not name.startswith("class_")
        bins = "cosine_bin" if name.endswith(("cosine", "baseline")) else "coefficient_bin"
        variables[name] = Variable((*dims, "statistic"), needed)
        variables[f"{name}_histogram"] = Variable((*dims, bins), needed)
    return variables


LAYER = {"layer": ("layer",)}
LAMBDA = {"lambda": ("lambda",)}
GROUPS = {
    "linearity": Group(layered(QUANTITIES, "pair", "alpha") | alike(TASK, "passes") | ROWS, ALPHA | LAYER),
    "layer_addition": Group(layered(QUANTITIES, "pair", "lambda") | ROWS, LAMBDA | LAYER),
    "layer_negation": Group(
        layered(NEGATED, "task", "lambda") | alike(TASK, "passes") | ROWS, LAMBDA | LAYER
    ),
    "layer_averages": Group(
        layered(QUANTITIES, "data_set")
        | {"data": Variable(("data_set",)), "sets": Variable(("data_set", "task"))}
        | ROWS,
        LAYER,
    ),
}
