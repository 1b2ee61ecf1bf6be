# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Layers of BERT, RoBERTa, T5 and decoders, by forward hooks on transformers' models.

A state is a layer's output [n, tokens, d], 0 at tokens that are none; of a T5's decoder its state at its
start token, with its encoder's output behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from taugrid_analysis.recompute import decoder

Hook = Callable[[Any, Any, Any], Any]


def _first(output: Any) -> Tensor:
    tensor: Tensor = output[0] if isinstance(output, tuple) else output
    return tensor


def _is_t5(model: torch.nn.Module) -> bool:
    config: Any = model.config
    return bool(config.model_type == "t5")


def stages(model: Any) -> list[torch.nn.Module]:
    """The embedding, then every layer; of T5 its encoder's, then its decoder's."""
    if _is_t5(model):
        return [model.encoder.embed_tokens, *model.encoder.block, *model.decoder.block]
    config: Any = model.config
    if config.model_type in decoder.TYPES:
        return decoder.stages(model)
    inside = getattr(model, config.model_type, model)  # of a masked language model
    return [inside.embeddings, *inside.encoder.layer]


def decodes(model: Any, stage: int) -> bool:
    return _is_t5(model) and stage > len(model.encoder.block)


@contextmanager
def _hooked(hooks: list[tuple[torch.nn.Module, Hook]]) -> Iterator[None]:
    handles = [module.register_forward_hook(hook) for module, hook in hooks]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def states(model: Any, x: Tensor, encode: Callable[[], Tensor]) -> list[Tensor]:
    """The states of every stage, and at the end the features that `encode` gives of these texts."""
    by_stage: dict[int, Tensor] = {}
    memory: list[Tensor] = []

    def keep(place: int) -> Hook:
        def hook(_module: object, _inputs: object, output: object) -> None:
            by_stage[place] = _first(output)

        return hook

    every = stages(model)
    hooks = [(module, keep(place)) for place, module in enumerate(every)]
    if _is_t5(model):  # whose embedding the decoder calls, too
        hooks[0] = (model.encoder.block[0], lambda _module, inputs, _output: by_stage.update({0: inputs[0]}))
        hooks.append((model.encoder.final_layer_norm, lambda *passed: memory.append(_first(passed[2]))))
    with _hooked(hooks):
        last = encode()
    used = x[:, :, 2, None]

    def whole(place: int) -> Tensor:
        if decodes(model, place):
            return torch.cat([by_stage[place], memory[0] * used], 1)
        return by_stage[place] * used

    return [*map(whole, range(len(every))), last]


def feature(model: Any, state: Tensor, stage: int, x: Tensor) -> Tensor:
    """What cross-task linearity compares: all tokens, of a T5 its encoder's mean or its decoder's own."""
    if not _is_t5(model) or state.ndim == 2:
        return state
    if decodes(model, stage):
        return state[:, 0]
    return state.sum(1) / x[:, :, 2].sum(1, keepdim=True)


@contextmanager
def stitched(model: Any, state: Tensor, stage: int) -> Iterator[None]:
    """Within, this stage's output is `state`, whatever it is given."""
    decoding = decodes(model, stage)

    def replace(new: Tensor) -> Hook:
        def hook(_module: object, _inputs: object, output: Any) -> Any:
            return (new, *output[1:]) if isinstance(output, tuple) else new

        return hook

    hooks = [(stages(model)[stage], replace(state[:, :1] if decoding else state))]
    if decoding:
        hooks.append((model.encoder.final_layer_norm, replace(state[:, 1:])))
    with _hooked(hooks):
        yield
