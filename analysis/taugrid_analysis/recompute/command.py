# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`recompute RUN`: what is said before PyTorch is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import locate
from taugrid_analysis.run.results import Results

NEEDED = ("torch", "transformers")
ARCHITECTURES = (
    "CLIPVisionModelWithProjection",
    "BertModel",
    "RobertaModel",
    "BertForMaskedLM",
    "RobertaForMaskedLM",
    "T5ForConditionalGeneration",
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "GPT2LMHeadModel",
    "ViTModel",
    "ViTForImageClassification",
    "ConvNextModel",
    "ConvNextForImageClassification",
    "ConvNextWithProjection",
    "MLP",
    "ResNet",
)


POINTS = 50  # numbers of each group
LEAST_MINUTES = 5.0  # a network takes half a minute to load


@dataclass(frozen=True)
class Extent:
    """How much is taken again: numbers of each group or all of them, and for how long; None: the usual."""

    points: int | None = None
    everything: bool = False
    minutes: float | None = None

    def count(self) -> int | None:
        """Numbers of each group; None: all."""
        return None if self.everything else POINTS if self.points is None else self.points

    def seconds(self, results: Results) -> float:
        """The time for it: what is asked for, or that of the run's work; without end where a count is."""
        if self.minutes is not None:
            return 60 * self.minutes
        if self.everything or self.points is not None:
            return math.inf
        units = results.units()
        work = sum(unit.seconds for unit in units) / max(1, len({unit.rank for unit in units}))
        return max(60 * LEAST_MINUTES, work)


def recompute(run: Path, extent: Extent, seed: int, only: Sequence[str] = ()) -> int:
    """Prints a line a quantity, from a sample of its numbers, or from all of them.

    Returns 0 where all hold, 1 where one does not.

    Raises InputError where the folder, its inputs or PyTorch are missing, or an input has changed since the
    run.
    """
    if extent.points is not None and extent.points < 1:
        raise InputError(f"--points is {extent.points}", "recompute", "1 or more")
    if extent.minutes is not None and not (0 < extent.minutes < math.inf):
        raise InputError(f"--minutes is {extent.minutes:g}", "recompute", "more than 0")
    if seed < 0:
        raise InputError(f"--seed is {seed}", "recompute", "0 or more")
    path = locate(run)
    with Results(path) as results:
        model = results.model()
        if model is None or model.architecture not in ARCHITECTURES:
            known = model.architecture if model is not None else "model that it does not name"
            expected = f"one of {', '.join(ARCHITECTURES)}, which recompute knows"
            raise InputError(f"measures a {known}", path, expected)
        seconds = extent.seconds(results)
    for name in NEEDED:
        if find_spec(name) is None:
            raise InputError(f"{name} is not installed", "recompute", "PyTorch and transformers")
    from taugrid_analysis.recompute.reading import read

    return read(path.parent, extent.count(), seed, only, seconds)
