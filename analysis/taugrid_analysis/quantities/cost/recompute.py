# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of parameters again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from taugrid_analysis.recompute import texts
from taugrid_analysis.recompute.checks import Check, exact, stored
from taugrid_analysis.recompute.common import each_place
from taugrid_analysis.recompute.oracle import Oracle

# Names of weights: CLIP's, BERT's, ViT's, ConvNeXt's, perceptrons', T5's, whose biases of attention are by
# the distance of tokens.
ATTENTION = r"\b(self_)?attn\.|\battention\.(self|attention|output\.dense)\.|Attention\.[qkvo]\."
MLP = r"\bmlp\.|\d\.(intermediate|output)\.dense\.|\bDenseReluDense\.|\bpwconv[12]\.|^\d+\."
RELATIVE = r"\brelative_attention_bias\."


def checks(oracle: Oracle) -> Iterator[Check]:
    """What follows from the model; seconds, flops and peaks are of the program and its machine."""
    group = "cost"
    sizes = {name: p.numel() for name, p in oracle.theta0.items()}
    every = sum(sizes.values())
    if oracle.of_texts:  # whose lower stages, and whose head, may be frozen
        first = int(oracle.inputs.config.get("finetune", {}).get("first_stage", 0))
        config = oracle.model.config
        frozen = {name for name in sizes if oracle.words_frozen and texts.is_head(name)}
        sizes = {k: n for k, n in sizes.items() if texts.stage(k, config) >= first and k not in frozen}

    if oracle.is_net and not any(head.kind == "words" for head in oracle.heads):
        classifier = oracle.model.classifier_name  # which no task reads, and so stays as it is
        read = {
            name: n for name, n in sizes.items() if not (classifier and name.startswith(f"{classifier}."))
        }
    else:
        read = sizes

    def factors() -> int:
        """r(out + in) of each matrix of attention and MLPs that `lora_modules` names; of all by default."""
        how = oracle.inputs.config.get("finetune", {})
        ends = tuple(f".{end}.weight" for end in how.get("lora_modules", [])) or (".weight",)
        matrices = [
            oracle.theta0[name].shape
            for name in read
            if re.search(f"{ATTENTION}|{MLP}", name) and f".{name}".endswith(ends)
        ]
        return sum(how.get("lora_rank", 8) * sum(shape) for shape in matrices if len(shape) == 2)

    def trained(regime: str) -> int:
        if regime == "lora":
            return factors()
        if not regime.startswith("attention"):
            return sum(read.values())
        wanted = f"{ATTENTION}|{MLP}" if "+mlp" in regime else ATTENTION
        if regime.endswith("+bias"):
            wanted = f"{wanted}|{RELATIVE}"
        kinds = (".weight", ".bias") if regime.endswith("+bias") else (".weight",)
        return sum(n for name, n in sizes.items() if re.search(wanted, name) and name.endswith(kinds))

    expected: dict[str, Callable[[str], int]] = {
        "parameters": lambda regime: every,
        "trainable_parameters": trained,
        "optimiser_memory": lambda regime: 8 * trained(regime),
    }
    for name, again in expected.items():
        yield from each_place(
            oracle,
            group,
            name,
            lambda place, name=name, again=again: exact(  # type: ignore[misc]
                stored(oracle, group, name, place), again(place[0])
            ),
        )
