# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face folder with pytorch_model.bin, or its parts and their index, to one with model.safetensors.

torch.load reads the pickles with weights_only=True, which calls nothing that a file names: files from before PyTorch
1.6 too, as the first published BERTs are. What asks for more than tensors is refused.
"""

import argparse
import json
import pickle
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

import packed
import walk
from checkpoints.pickles import DAMAGED
from errors import InputError, checked_text, one_line, shown
from packed import Say

BIN = "pytorch_model.bin"
CARRIED = (".json", ".txt", ".model", ".jinja")  # suffixes of configuration, vocabulary, tokenizer and templates
NOT_CARRIED = ("trainer_state.json", "all_results.json", "train_results.json", "eval_results.json")
INDEX_MOST = 64 << 20  # bytes
KEPT_TYPES = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
              torch.int8, torch.uint8, torch.bool}


def parts_of(folder: Path) -> list[str]:
    if (folder / BIN).exists():
        return [BIN]
    index = folder / f"{BIN}.index.json"
    if not index.exists():
        raise InputError(f"{folder}: has neither {BIN} nor {BIN}.index.json; expected a model that torch.save wrote")
    walk.regular(index, "an index of parts")
    if index.stat().st_size > INDEX_MOST:
        raise InputError(f"{index}: has more than 64 MiB; expected an index of parts")
    try:
        places = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        names = sorted({str(name) for name in places})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise InputError(f"{index}: is no index; expected weight_map, the parts' names by tensor") from None
    for name in names:
        if Path(name).name != name or not name.endswith(".bin"):
            raise InputError(f"{index}: names the part {shown(name)}; expected the name of a .bin file in this folder")
    return names


def tensors_of(path: Path) -> dict[str, Tensor]:
    walk.regular(path, "a model that torch.save wrote")
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, AttributeError, ImportError, MemoryError, OSError, *DAMAGED) as error:
        reason = one_line(error).split(" (1) ")[0].split(". ")[0]
        raise InputError(
            f"{path}: cannot be read without running its code, or is damaged ({reason[:200]}); expected a dictionary "
            "of tensors"
        ) from None
    if isinstance(held, dict) and isinstance(held.get("state_dict"), dict):
        held = held["state_dict"]
    if not isinstance(held, dict) or not held:
        raise InputError(f"{path}: holds a {type(held).__name__}; expected a dictionary of tensors")
    for name, value in held.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise InputError(
                f"{path}: {shown(str(name))} is a {type(value).__name__}; expected a dictionary of tensors by name"
            )
        checked_text(name, str(path))
        require_plain(value, f"{path}: {shown(name)}")
    return held


def require_plain(value: Tensor, where: str) -> None:
    """Refuses what safetensors has no place for, and what would take more memory than the file's numbers."""
    if value.layout != torch.strided or value.device.type != "cpu" or value.dtype not in KEPT_TYPES:
        kind = f"{str(value.layout).removeprefix('torch.')} {str(value.dtype).removeprefix('torch.')}"
        raise InputError(f"{where} is {kind} on {value.device.type}; expected plain numbers, as safetensors keeps them")
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise InputError(f"{where} repeats few numbers as {value.numel()}; expected all of them in the file")


def prepare(options: argparse.Namespace, say: Say) -> None:
    source, out = options.source.expanduser(), options.out
    if not (source / "config.json").exists():
        raise InputError(f"{source}: has no config.json; expected a Hugging Face folder")
    if out.exists() and out.resolve() == source.resolve():
        raise InputError(f"--out {out}: is the input; expected another folder")
    tensors: dict[str, Tensor] = {}
    parts = parts_of(source)
    for part in parts:
        for name, value in tensors_of(source / part).items():
            if name in tensors:
                raise InputError(f"{source / part}: has {shown(name)}, as another part has; expected it once")
            tensors[name] = value.detach().contiguous().clone()  # tied ones share memory, which safetensors refuses
    with packed.whole(out / "model.safetensors", options.replace) as written:
        save_file(dict(sorted(tensors.items())), written, {"format": "pt"})
    for entry in walk.held(source)[1]:
        name = entry.name
        if name.endswith(CARRIED) and not name.endswith(".index.json") and name not in NOT_CARRIED:
            walk.regular(entry.path, "a file that stands beside the weights")
            with packed.whole(out / name, options.replace) as written:
                shutil.copyfile(entry.path, written)
    say(f"{out}: {len(tensors)} tensors of {len(parts)} file{'s' if len(parts) > 1 else ''}")
