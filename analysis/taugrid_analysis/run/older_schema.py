# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a file of an older schema does not hold, each number by its path, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_analysis.run.contract import GROUPS
from taugrid_analysis.run.results import Results

SPLIT = "split"  # attribute of /disentanglement/R: whose points ξ is measured on
PENALTY = ("penalty_form", "penalty_others")  # attributes of /training/R

FOLLOWS = {
    "null_share": "the NTK's shares stand without their null, and the NTK is no predictor",
    "null_energy": "the histograms of local energy have no third colour",
    "rank": "the rank that the NTK's cut-off kept is not known",
    "validation_value": "τJp is a predictor measured on test points",
    "symmetric_error": "no symmetric KL: the paper's scale cannot be compared with",
    "symmetric_error_by_task": "no symmetric KL of either task",
    "correct": "errors are binomial; a ratio or difference of two models on the same points is taken as of"
    " different points, so that its error is usually too large",
    SPLIT: "ξ is taken as measured on test points",
    PENALTY[0]: "the penalty is taken as the mean squared norm",
    PENALTY[1]: "the others' penalties are taken as added up",
}
ACCURACIES = {
    "single_task": ("accuracy",),
    "multitask": ("accuracy",),
    "addition": ("test_accuracy",),
    "pair_addition": ("test_accuracy",),
    "negation": ("test_target", "test_control"),
}


@dataclass(frozen=True)
class Lack:
    path: str
    regimes: tuple[str, ...]
    follows: str


def lacks(results: Results) -> list[Lack]:
    """One entry a number; `regimes` are those whose group is there without it."""
    found: dict[str, list[str]] = {}

    def miss(path: str, name: str) -> None:
        found.setdefault(path, []).append(name)

    for group, known in GROUPS.items():
        for name in results.names(group):
            for key, variable in known.variables.items():
                if variable.since > 1 and not results.has(f"{group}/{name}/{variable.path or key}"):
                    miss(f"/{group}/R/{key}", name)
            for key in ACCURACIES.get(group, ()):
                if not results.has(f"correct/{group}/{name}/{key}"):
                    miss(f"/correct/{group}/R/{key}", name)
            told = results.attributes(f"{group}/{name}")
            if group == "disentanglement" and SPLIT not in told:
                miss(f"/{group}/R, attribute {SPLIT}", name)
            if group == "training" and name.startswith("tau_jp"):
                for key in PENALTY:
                    if key not in told:
                        miss(f"/{group}/R, attribute {key}", name)
    return [Lack(path, tuple(names), FOLLOWS[_key(path)]) for path, names in found.items()]


def _key(path: str) -> str:
    return "correct" if path.startswith("/correct/") else path.rsplit("/", 1)[-1].rsplit(" ", 1)[-1]
