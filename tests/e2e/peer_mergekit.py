# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""mergekit, as an oracle in this process."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import torch


def merge(text: str, out: Path, **options: Any) -> Path:
    """Merges by a recipe in YAML. What mergekit once read by a name it keeps open, and takes for another folder's of
    that name: so it starts with nothing open."""
    from mergekit.config import MergeConfiguration
    from mergekit.io.tasks import LoaderCache
    from mergekit.merge import MergeOptions, run_merge

    LoaderCache.loaders.clear()
    shutil.rmtree(out, ignore_errors=True)
    run_merge(MergeConfiguration.model_validate(yaml.safe_load(text)), str(out),
              MergeOptions(write_model_card=False, quiet=True, **options))
    return out


def is_same(ours: "torch.Tensor", theirs: "torch.Tensor") -> bool:
    """Bitwise; where PyTorch pretends to be on a processor without fused products, but for roundings of the largest."""
    import torch

    if os.environ.get("ATEN_CPU_CAPABILITY") != "default":
        return torch.equal(ours, theirs)
    ours, theirs, rounding = ours.double(), theirs.double(), torch.finfo(theirs.dtype).eps
    return bool((ours - theirs).abs().max() <= 2 * rounding * theirs.abs().max())
