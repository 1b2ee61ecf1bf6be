# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How well numbers of merges are predicted for tasks that the prediction has not seen.

A merge is a set of tasks; its predictor is the mean of a pair's number over its pairs. A line is fitted to
all merges without one task, and predicts those with it, for every task in turn. Under the null hypothesis the
tasks' names carry no information: x of the pair (i, j) becomes that of (π(i), π(j)), as in correlation.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.numbers.correlation import varies

LEAST = 6  # merges; below that a line says nothing
PERMUTATIONS = 499
SEED = 0


@dataclass(frozen=True)
class Prediction:
    """Errors are roots of mean squares over tasks left out, each with its merges weighing alike."""

    merges: int
    without: float  # of a line over the number of tasks, or of the mean where all merges have as many
    with_it: float  # with the predictor beside it
    p: float  # of an error as small, over permutations of the tasks

    @property
    def gain(self) -> float:
        """The part of the squared error that the predictor takes away; negative where it adds to it."""
        return 1 - (self.with_it / self.without) ** 2 if self.without > 0 else float("nan")


def of_merges(member: Array, pairs: Array) -> Floats:
    """Mean of pairs [...,T,T], diagonals aside, over the pairs of each set of member [N,T]: [...,N]."""
    inside = member.astype(float)
    size = inside.sum(1)
    sums = np.einsum("ns,...st,nt->...n", inside, _off_diagonal(pairs), inside, optimize=True)
    return np.asarray(sums / np.maximum(size * (size - 1), 1))


def of_tasks(pairs: Array) -> Floats:
    """Mean of each task's pairs with all others, [...,T] of pairs [...,T,T]."""
    off = _off_diagonal(pairs)
    return np.asarray((off.sum(-1) + off.sum(-2)) / (2 * max(off.shape[-1] - 1, 1)))


def _off_diagonal(pairs: Array) -> Floats:
    return np.where(np.eye(pairs.shape[-1], dtype=bool), 0.0, pairs)


def merges(member: Array, outcome: Array, pairs: Array) -> Prediction | None:
    """Predicts the outcome [N] of merges of the tasks in member [N,T] from numbers of pairs [T,T].

    None for fewer than LEAST merges, or where nothing is left to fit without some task.
    """
    member = np.asarray(member, dtype=bool)
    size = member.sum(1)
    usable = np.isfinite(outcome) & (size > 1)
    member, y = member[usable], np.asarray(outcome, dtype=float)[usable]
    of_size = [np.log(size[usable].astype(float))] if len(np.unique(size[usable])) > 1 else []
    held = [member[:, t] for t in range(member.shape[1]) if member[:, t].any()]
    return _predicted(y, held, of_size, lambda moved: of_merges(member, moved), pairs)


def tasks(outcome: Array, pairs: Array) -> Prediction | None:
    """The same of the tasks of one merge, each an outcome [T] of its own: NaN where it is left out."""
    usable = np.isfinite(outcome)
    y = np.asarray(outcome, dtype=float)[usable]
    held = [np.arange(len(y)) == t for t in range(len(y))]
    return _predicted(y, held, [], of_tasks, np.asarray(pairs)[np.ix_(usable, usable)])


def _predicted(
    y: Floats, held: list[Array], columns: list[Floats], of: Callable[[Array], Floats], pairs: Array
) -> Prediction | None:
    pairs = np.asarray(pairs, dtype=float)
    x = of(pairs)
    if len(y) < LEAST or not np.isfinite(x).all() or not varies(x) or not varies(y):
        return None
    given = np.stack([np.ones(len(y)), *columns], 1)
    if any((~out).sum() < given.shape[1] + 2 for out in held):
        return None
    rng = np.random.default_rng(SEED)
    orders = rng.permuted(np.tile(np.arange(len(pairs)), (PERMUTATIONS, 1)), axis=1)
    moved = of(pairs[orders[:, :, None], orders[:, None, :]])
    errors = _errors(y, held, given, np.concatenate([x[None], moved]))
    without = _errors(y, held, given, np.zeros((1, len(y))))[0]
    reached = float((errors <= errors[0] + 1e-12).mean())
    return Prediction(len(y), float(without), float(errors[0]), reached)


def _errors(y: Floats, held: list[Array], given: Floats, x: Floats) -> Floats:
    """Root of the mean, over tasks left out, of the mean squared error of their merges: of each x of x [P,N].

    y = given γ + x β by least squares: β is that of what `given` leaves of both (Frisch and Waugh 1933).
    """
    squares = []
    for out in held:
        inverse = np.linalg.pinv(given[~out])
        left = x[:, ~out] - (x[:, ~out] @ inverse.T) @ given[~out].T
        rest = y[~out] - given[~out] @ (inverse @ y[~out])
        length = (left**2).sum(1)
        beta = (left @ rest) / np.where(length > 0, length, 1.0)
        level = (y[~out] - beta[:, None] * x[:, ~out]) @ inverse.T
        predicted = level @ given[out].T + beta[:, None] * x[:, out]
        squares.append(((predicted - y[out]) ** 2).mean(1))
    errors = np.sqrt(np.mean(squares, 0))
    return np.where(errors > 1e-9 * np.ptp(y), errors, 0.0)  # a line that fits is left with rounding alone
