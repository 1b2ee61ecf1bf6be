# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How a quantity says what it reads of results.h5: data sets of groups, and names of their dimensions.

Names of dimensions: `task`, `pair` and `side` (which task of the pair) have labels; `alpha`, `alpha_1`,
`alpha_2` and `step` have their values; `points_of`, `control` and `other` are tasks in a second role. All
others are counted. The file itself labels a dimension by what it holds, so that one with two roles has one
label twice; which role is which stands here, beside the quantity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Dims = tuple[str, ...]


@dataclass(frozen=True)
class Variable:
    """One data set of a group. `since`: the schema_version from which every file has it."""

    dims: Dims
    needed: bool = True
    since: int = 1
    whole: bool = True  # False: so large that it is read on request alone
    path: str = ""  # below the group, where it is not the name
    without: str = ""  # what follows where an older file lacks it


@dataclass(frozen=True)
class Group:
    """`axes`: the data set that holds a dimension's values, and the dimensions which it stands for.

    `words`, `numbers`: attributes without which the group cannot be read, and what they mean. `by_method`:
    the name below the group has two steps, METHOD/REGIME. `correct`: accuracies beside which schema 2 stores
    which points are right. `joint`: the group of a model that was trained on all tasks.
    """

    variables: Mapping[str, Variable]
    axes: Mapping[str, Dims] = field(default_factory=dict)
    least: int = 1  # values of an axis
    words: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)
    by_method: bool = False
    correct: tuple[str, ...] = ()
    joint: Group | None = None

    @property
    def of_pairs(self) -> bool:
        """Whether what it tells is of pairs alone."""
        return any(variable.needed and "pair" in variable.dims for variable in self.variables.values())


def alike(dims: Dims, *names: str, needed: bool = True) -> dict[str, Variable]:
    """Several variables of the same dimensions."""
    return {name: Variable(dims, needed) for name in names}


TASK: Dims = ("task",)
PAIR: Dims = ("pair",)
ROWS = {  # which rows of the tasks' splits were measured
    "sample_index": Variable(("task", "point"), needed=False),
    "validation_sample_index": Variable(("task", "validation_point"), needed=False),
}
ALPHA = {"alpha": ("alpha",)}
SUMS = ("chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized")
CHOSEN = ("coefficient", "absolute", "normalized")  # α by validation, and the mean accuracies there
