# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The groups about tasks, task vectors and grids. A group that is absent reads as None."""

from __future__ import annotations

import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import text
from taugrid_analysis.reader import Reader
from taugrid_analysis.records import (
    NTK,
    Cost,
    Disentanglement,
    Multitask,
    Similarity,
    SingleTask,
    Smoothness,
    Training,
    Unit,
)
from taugrid_analysis.regimes import JOINT


class Groups(Reader):
    def single_task(self, regime: str) -> SingleTask | None:
        group = f"/single_task/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        return SingleTask(
            accuracy=self._array(f"{group}/accuracy", (count,)),
            loss=self._array(f"{group}/loss", (count,)),
            samples=self._samples(group),
            control_accuracy=self._optional_scalar(f"{group}/control_accuracy"),
            control_validation_accuracy=self._optional_scalar(f"{group}/control_validation_accuracy"),
        )

    def multitask(self, regime: str) -> Multitask | None:
        group = f"/multitask/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        return Multitask(
            accuracy=self._array(f"{group}/accuracy", (count,)),
            validation_accuracy=self._array(f"{group}/validation_accuracy", (count,)),
            loss=self._array(f"{group}/loss", (count,)),
        )

    def similarity(self, regime: str) -> Similarity | None:
        group = f"/similarity/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        gap = f"{group}/loss_gap"
        return Similarity(
            cosine=self._array(f"{group}/cosine", (count, count)),
            norm=self._array(f"{group}/norm", (count,)),
            norm_ratio=self._array(f"{group}/norm_ratio", (count,)),
            loss_gap=self._array(gap, (len(self.pairs), 2)) if self._of_pairs(gap) else None,
        )

    def disentanglement(self, regime: str) -> Disentanglement | None:
        """Distance of the classifiers' predictions."""
        return self._grid(f"/disentanglement/{regime}", "disagreement")

    def representation(self, regime: str) -> Disentanglement | None:
        """Distance of the encoders' outputs (paper 4, section 4.1)."""
        return self._grid(f"/representation/{regime}", "kl")

    def _grid(self, group: str, usual: str) -> Disentanglement | None:
        if not self._of_pairs(group):
            return None
        alpha = self._increasing(f"{group}/alpha", 2, "coefficients")
        size, pairs = len(alpha), len(self.pairs)
        metric = self._file[group].attrs.get("metric")
        if metric is None and f"{group}/error_by_task" in self._file:
            metric = self._file[f"{group}/error_by_task"].attrs.get("metric")
        return Disentanglement(
            error=self._array(f"{group}/error", (pairs, size, size)),
            by_task=self._array(f"{group}/error_by_task", (pairs, 2, size, size)),
            alpha=alpha,
            metric=text(metric) if metric is not None else usual,
            samples=self._samples(group),
        )

    def smoothness(self, regime: str) -> Smoothness | None:
        group = f"/smoothness/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        return Smoothness(
            lambda_max=self._array(f"{group}/lambda_max", (count,)),
            residual=self._array(f"{group}/residual", (count,)),
            hvp_count=self._array(f"{group}/hvp_count", (count,)).astype(int),
            method=text(self._file[group].attrs.get("method", "not stated")),
        )

    def ntk(self, start: str) -> NTK | None:
        group = f"/ntk/{start}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        energy = self._array(f"{group}/local_energy", (count, count, None, None))
        spectrum = f"{group}/eigenvalues"
        logits, points = energy.shape[2], energy.shape[3] // 2
        known = spectrum in self._file
        return NTK(
            local_energy=energy,
            eigenvalues=self._array(spectrum, (count, logits, points)) if known else None,
        )

    def cost(self, regime: str) -> Cost | None:
        group = f"/cost/{regime}"
        if group not in self._file:
            return None

        def positive(name: str) -> float:
            value = self._scalar(f"{group}/{name}")
            if not value >= 0:
                raise InputError(f"is {value:g}", f"{self.path}:{group}/{name}", "a number of 0 or more")
            return value

        batch = self._file[group].attrs.get("batch")
        return Cost(
            parameters=positive("parameters"),
            trainable_parameters=positive("trainable_parameters"),
            optimiser_memory=positive("optimiser_memory"),
            peak_memory=positive("peak_memory"),
            seconds_per_step=positive("seconds_per_step"),
            forward_flops=positive("forward_flops"),
            jvp_flops=positive("jvp_flops"),
            step_flops=positive("step_flops"),
            batch=int(batch) if batch is not None else None,
        )

    def training(self, regime: str) -> Training | None:
        group = f"/training/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        if regime in JOINT:  # one curve
            loss, seconds = self._array(f"{group}/loss", (None,)), self._scalar(f"{group}/seconds")
            return Training(loss=loss[None], seconds=np.array([seconds]))
        return Training(
            loss=self._array(f"{group}/loss", (count, None)),
            seconds=self._array(f"{group}/seconds", (count,)),
        )

    def units(self) -> list[Unit]:
        if "units" not in self._file:
            return []
        rows = self._vector("/units")
        missing = {"key", "rank", "seconds", "device"} - set(rows.dtype.names or ())
        if missing:
            raise InputError(f"lacks {sorted(missing)}", f"{self.path}:/units", "key, rank, seconds, device")
        return [
            Unit(text(row["key"]), int(row["rank"]), float(row["seconds"]), text(row["device"]))
            for row in rows
        ]
