# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The groups about edited models: sums and negations of task vectors, and what they disturb."""

from __future__ import annotations

from taugrid_analysis.errors import InputError
from taugrid_analysis.groups import Groups
from taugrid_analysis.records import Addition, Choice, Continuation, Negation, PairAddition, TauJp


class Edits(Groups):
    def addition(self, regime: str) -> Addition | None:
        group = f"/addition/{regime}"
        if group not in self._file:
            return None
        alpha = self._array(f"{group}/alpha", (None,))
        shape = (len(alpha), len(self.tasks))
        return Addition(
            alpha=alpha,
            validation_accuracy=self._array(f"{group}/validation_accuracy", shape),
            test_accuracy=self._array(f"{group}/test_accuracy", shape),
            chosen_alpha=self._scalar(f"{group}/chosen_alpha"),
            absolute=self._scalar(f"{group}/absolute"),
            normalized=self._scalar(f"{group}/normalized"),
            one_shot_absolute=self._scalar(f"{group}/one_shot_absolute"),
            one_shot_normalized=self._scalar(f"{group}/one_shot_normalized"),
        )

    def pair_addition(self, regime: str) -> PairAddition | None:
        group = f"/pair_addition/{regime}"
        if not self._of_pairs(group):
            return None
        alpha = self._increasing(f"{group}/alpha", 1, "coefficient")
        pairs = len(self.pairs)
        curves, a_pair = (pairs, len(alpha), 2), (pairs,)
        return PairAddition(
            alpha=alpha,
            validation_accuracy=self._array(f"{group}/validation_accuracy", curves),
            test_accuracy=self._array(f"{group}/test_accuracy", curves),
            chosen_alpha=self._array(f"{group}/chosen_alpha", a_pair),
            absolute=self._array(f"{group}/absolute", a_pair),
            normalized=self._array(f"{group}/normalized", a_pair),
            one_shot_absolute=self._array(f"{group}/one_shot_absolute", a_pair),
            one_shot_normalized=self._array(f"{group}/one_shot_normalized", a_pair),
        )

    def negation(self, regime: str) -> Negation | None:
        group = f"/negation/{regime}"
        if group not in self._file:
            return None
        alpha = self._increasing(f"{group}/alpha", 1, "coefficient")
        shape = (len(self.tasks), len(alpha))
        threshold = self._attribute(group, "control_threshold", "the share of θ0's control accuracy to keep")
        try:
            kept = float(threshold)
        except ValueError:
            raise InputError(
                f"control_threshold is {threshold}", f"{self.path}:{group}", "a number"
            ) from None
        return Negation(
            alpha=alpha,
            validation_target=self._array(f"{group}/validation_target", shape),
            validation_control=self._array(f"{group}/validation_control", shape),
            test_target=self._array(f"{group}/test_target", shape),
            test_control=self._array(f"{group}/test_control", shape),
            narrow=self._choice(group),
            wide=self._choice(f"{group}/wide") if self._has(group, "wide") else None,
            control=self._attribute(group, "control", "the control task's name"),
            threshold=kept,
        )

    def _choice(self, group: str) -> Choice:
        count = len(self.tasks)
        return Choice(
            alpha=self._array(f"{group}/chosen_alpha", (count,)),
            target=self._array(f"{group}/target", (count,)),
            control=self._array(f"{group}/control", (count,)),
        )

    def tau_jp(self, regime: str) -> TauJp | None:
        group = f"/tau_jp/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        control = f"{group}/control"
        return TauJp(
            value=self._array(f"{group}/value", (count, count)),
            control=self._array(control, (count,)) if control in self._file else None,
        )

    def continuation(self, regime: str) -> Continuation | None:
        group = f"/continuation/{regime}"
        if not self._of_pairs(group):
            return None
        step = self._increasing(f"{group}/step", 1, "step")
        count, steps = len(self.tasks), len(step)
        return Continuation(
            step=step,
            tau_jp=self._array(f"{group}/tau_jp", (steps, count, count)),
            pair_normalized=self._array(f"{group}/pair_normalized", (steps, len(self.pairs))),
            normalized=self._array(f"{group}/normalized", (steps,)),
        )
