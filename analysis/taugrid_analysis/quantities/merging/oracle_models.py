# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What methods with data merge: models θ0 + τ, and the tasks whose data are each one's own."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from taugrid_analysis.recompute.oracle import Oracle, Parameters


@dataclass(frozen=True, eq=False)
class Model:
    """A task's own, or one with a basis of several tasks' vectors."""

    oracle: Oracle
    regime: str
    tau: Parameters
    tasks: tuple[int, ...]

    @property
    def linear(self) -> bool:
        return self.oracle.regime(self.regime).linear

    def theta(self) -> Parameters:
        """Where its outputs are recorded: of a linear regime θ0."""
        theta0 = self.oracle.theta0
        return theta0 if self.linear else {name: v + self.tau[name] for name, v in theta0.items()}

    def statistics(self) -> Parameters:
        """The statistics of batch norm: the model's own, or those of an edit by these tasks."""
        alone = len(self.tasks) == 1
        edits = dict.fromkeys(self.tasks, 1.0 / len(self.tasks))
        return self.oracle.statistics(self.regime, edits, None if alone else self.tau)

    def output(self, x: Tensor, t: int) -> Tensor:
        """As task t reads it."""
        return self.oracle.through(self.regime, self.tau, x, t, self.statistics())


def fine_tuned_models(oracle: Oracle, regime: str) -> list[Model]:
    """Each task's own model."""
    return [Model(oracle, regime, oracle.tau(regime, t), (t,)) for t in range(len(oracle.tasks))]
