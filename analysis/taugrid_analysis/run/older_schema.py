# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a file of an older schema does not hold, each number by its path, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass

from taugrid_analysis.quantities import groups
from taugrid_analysis.run.results import Results

SPLIT = "split"  # attribute of /disentanglement/R: whose points ξ is measured on
PENALTY = ("penalty_form", "penalty_others")  # attributes of /training/R

ORDER = (  # of the groups in which one reads what is missing
    *("single_task", "multitask", "disentanglement", "representation", "ntk", "tau_jp", "addition"),
    *("pair_addition", "negation", "training"),
)
CORRECT = (
    "errors are binomial; a ratio or difference of two models on the same points is taken as of"
    " different points, so that its error is usually too large"
)
ATTRIBUTES = {
    SPLIT: "ξ is taken as measured on test points",
    PENALTY[0]: "the penalty is taken as the mean squared norm",
    PENALTY[1]: "the others' penalties are taken as added up",
}


@dataclass(frozen=True)
class Missing:
    path: str
    regimes: tuple[str, ...]
    follows: str


def missing_numbers(results: Results) -> list[Missing]:
    """One entry a number; `regimes` are those whose group is there without it."""
    missing: dict[tuple[str, str], list[str]] = {}  # by path, and what follows

    def miss(path: str, follows: str, name: str) -> None:
        missing.setdefault((path, follows), []).append(name)

    for group, known in groups().items():
        for name in results.names(group):
            for key, variable in known.variables.items():
                if variable.since > 1 and not results.has(f"{group}/{name}/{variable.path or key}"):
                    miss(f"/{group}/R/{key}", variable.without, name)
            for key in known.correct:
                if not results.has(f"correct/{group}/{name}/{key}"):
                    miss(f"/correct/{group}/R/{key}", CORRECT, name)
            attributes = results.attributes(f"{group}/{name}")
            if group == "disentanglement" and SPLIT not in attributes:
                miss(f"/{group}/R, attribute {SPLIT}", ATTRIBUTES[SPLIT], name)
            if group == "training" and name.startswith("tau_jp"):
                for key in PENALTY:
                    if key not in attributes:
                        miss(f"/{group}/R, attribute {key}", ATTRIBUTES[key], name)
    order = {name: place for place, name in enumerate(ORDER)}
    entries = [Missing(path, tuple(names), follows) for (path, follows), names in missing.items()]
    return sorted(entries, key=lambda lack: order.get(_group(lack.path), len(order)))


def _group(path: str) -> str:
    return path.removeprefix("/correct").split("/")[1]
