# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`recompute RUN`: what is said before PyTorch is asked for."""

from __future__ import annotations

from collections.abc import Sequence
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
    "ViTModel",
    "ViTForImageClassification",
    "ConvNextModel",
    "ConvNextForImageClassification",
    "ConvNextWithProjection",
    "MLP",
    "ResNet",
)


def recompute(run: Path, points: int | None, seed: int, only: Sequence[str] = ()) -> int:
    """Prints a line a quantity, from about `points` numbers of each group, or from all of them (None).

    Returns 0 where all hold, 1 where one does not.

    Raises InputError where the folder, its inputs or PyTorch are missing, or an input has changed since the
    run.
    """
    if points is not None and points < 1:
        raise InputError(f"--points is {points}", "recompute", "1 or more")
    if seed < 0:
        raise InputError(f"--seed is {seed}", "recompute", "0 or more")
    path = locate(run)
    with Results(path) as results:
        model = results.model()
        if model is None or model.architecture not in ARCHITECTURES:
            known = model.architecture if model is not None else "model that it does not name"
            expected = f"one of {', '.join(ARCHITECTURES)}, which recompute knows"
            raise InputError(f"measures a {known}", path, expected)
    for name in NEEDED:
        if find_spec(name) is None:
            raise InputError(f"{name} is not installed", "recompute", "PyTorch and transformers")
    from taugrid_analysis.recompute.reading import read

    return read(path.parent, points, seed, only)
