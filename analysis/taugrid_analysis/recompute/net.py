# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A model of pictures in plain PyTorch, cut into stages as the program cuts it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Net(nn.Module):
    """states(): the output of the embedding and of every stage. The features are read of the last."""

    classifier_name = ""  # of the linear map that the model brings behind the features
    spread = 0.0  # of transformers' random start; 0: torchvision's start

    def __init__(self) -> None:
        super().__init__()
        self.constants: dict[str, float] = {}  # parameters that a random start sets to a number

    def states(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def stages(self) -> list[nn.Module]:
        """1 … L."""
        raise NotImplementedError

    @property
    def last(self) -> int:
        """L."""
        return len(self.stages())

    def features(self, last: Tensor) -> Tensor:
        return last

    def passes_over(self, name: str) -> bool:
        """Whether a file may have this tensor, which the model does not use."""
        return False

    def order(self) -> list[str]:
        """The parameters as θ holds them, one after the other."""
        return [name for name, _ in self.named_parameters()]

    def from_stage(self, first: int) -> list[str]:
        """The parameters of stage `first`, 1 … L + 1, and of all behind it."""
        names, within = self.order(), {id(p): name for name, p in self.named_parameters()}
        blocks = [[within[id(p)] for p in stage.parameters()] for stage in self.stages()]
        if first <= self.last:
            begin = min(names.index(name) for name in blocks[first - 1])
        else:
            begin = max(names.index(name) for name in blocks[-1]) + 1
        return names[begin:]

    def chain(self, embedded: Tensor) -> list[Tensor]:
        """What the embedding gave, and every stage."""
        states = [embedded]
        for stage in self.stages():
            states.append(stage(states[-1]))
        return states

    def forward(self, x: Tensor, begin: int = -1, every: bool = False) -> Any:
        """The features; with `begin` from what stage `begin` gave; or every state, and the features."""
        states = self.states(x) if begin < 0 else [x]
        if begin >= 0:
            for stage in self.stages()[begin:]:
                states.append(stage(states[-1]))
        last = self.features(states[-1])
        return [*states, last] if every else last
