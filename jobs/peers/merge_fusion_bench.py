# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""TIES by FusionBench's function of stacked vectors, [T, P]."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType

import torch
from merging import measure
from torch import Tensor


def utilities() -> ModuleType:
    """The file alone: the package around it imports hydra and lightning, which it does not need."""
    root = importlib.util.find_spec("fusion_bench")
    assert root is not None and root.submodule_search_locations is not None
    path = f"{root.submodule_search_locations[0]}/method/ties_merging/ties_merging_utils.py"
    for name in ("fusion_bench", "fusion_bench.utils", "fusion_bench.utils.type"):
        sys.modules[name] = ModuleType(name)
    sys.modules["fusion_bench.utils.type"].StateDictType = dict  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("ties_merging_utils", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prepare(vectors: list[Tensor]) -> Callable[[], Tensor]:
    module, stacked = utilities(), torch.stack(vectors)

    def run() -> Tensor:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            merged: Tensor = module.ties_merging(stacked, 20, "mean")
        return merged

    return run


measure("merge_fusion_bench", prepare)
