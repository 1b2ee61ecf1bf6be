# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The field's pickled checkpoints to Hugging Face folders: CLIPVisionModelWithProjection out of open_clip's names.

Read are the three layouts in use: ROOT/zeroshot.pt with ROOT/{Task}/finetuned.pt (GitHub: mlfoundations/task_vectors),
ROOT/{Task}Val/{,linear_}{zeroshot,finetuned}.pt (gortizji/tangent_task_arithmetic), and of twenty tasks
ROOT/{Task}Val/nonlinear_{zeroshot,finetuned}.pt (nik-dim/tall_masks).
"""

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

import packed
import walk
from checkpoints import pickles
from checkpoints.vit import ACTIVATION, ASSUMED, HEADS, OPTIONS, Hints, Model, convert, is_linearised, linearised
from errors import InputError
from packed import Say
from pictures.layouts import CONTROL

SAME_MODEL = 1e-4  # of ‖θ0‖: more than rounding to half precision and back, less than fine-tuning does
PREFIXES = {"standard": ("", "nonlinear_"), "linear": ("linear_",)}  # of files' names, by regime
MADE_HERE = "converted_from"  # key in the safetensors header: what bears it may be written again


@dataclass
class Source:
    """One task's folder in the field's layout."""

    task: str
    folder: Path


def task_of(name: str) -> str:
    return name.removesuffix("Val").lower()


def tasks_in(root: Path, only: str | None) -> list[Source]:
    sources: dict[str, Source] = {}
    for folder in (root / name for name in walk.held(root)[0]):
        if any((folder / f"{prefix}finetuned.pt").exists() for names in PREFIXES.values() for prefix in names):
            task = task_of(folder.name)
            if task in sources:
                raise InputError(f"{folder}: {sources[task].folder.name} holds {task} too; expected one folder a task")
            if all((folder / f"{prefix}finetuned.pt").exists() for prefix in PREFIXES["standard"]):
                raise InputError(f"{folder}: both finetuned.pt and nonlinear_finetuned.pt; expected one of them")
            sources[task] = Source(task, folder)
    wanted = [task.strip() for task in only.split(",")] if only is not None else list(sources)
    for task in wanted:
        if task not in sources:
            raise InputError(f"--only {only}: {root} has no {task}; expected some of {','.join(sources) or 'none'}")
    return [sources[task] for task in wanted]


class Converter:
    def __init__(self, options: argparse.Namespace, say: Say) -> None:
        self.root: Path = options.source.expanduser()
        self.out: Path = options.out
        self.trust: bool = options.trust_pickle
        self.say = say
        self.hints = Hints(options.attention_heads, options.activation)
        self.orders: list[list[str]] = []
        if not self.root.is_dir():
            raise InputError(f"{self.root}: not a folder; expected --from with zeroshot.pt or TaskVal/finetuned.pt")
        self.tasks = tasks_in(self.root, options.only)
        self.wanted = None if options.only is None else {CONTROL, *(source.task for source in self.tasks)}

    def read(self, path: Path) -> tuple[Model, Model | None]:
        """(θ, None), or (θ*, θ0) of a linearised one."""
        contents = pickles.read(path, self.trust)
        self.hints.learn(contents)
        if is_linearised(contents):
            return linearised(contents, str(path), self.hints, self.orders)
        self.orders = [list(contents.tensors)]
        return convert(contents.tensors, str(path), self.hints), None

    def starts(self) -> Iterator[Path]:
        """Files that hold the pre-trained model; a linearised task's file holds it too."""
        for name in ("zeroshot.pt", "nonlinear_zeroshot.pt", "linear_zeroshot.pt", "linear_finetuned.pt"):
            for folder in (self.root, *(source.folder for source in self.tasks)):
                if (folder / name).exists():
                    yield folder / name

    def run(self) -> None:
        first = next(self.starts(), None)
        if first is None:
            raise InputError(
                f"{self.root}: no pre-trained model; expected zeroshot.pt or TaskVal/{{,nonlinear_,linear_}}zeroshot.pt"
            )
        model, initial = self.read(first)
        start = initial or model
        c = start.config
        self.write(start, first, "pretrained")
        self.say(
            f"checkpoints/pretrained: ViT of {c['num_hidden_layers']} layers, width {c['hidden_size']}, patches of "
            f"{c['patch_size']}, {c['image_size']} pixels; activation {c[ACTIVATION]} ({start.teller[ACTIVATION]}), "
            f"{c[HEADS]} attention heads ({start.teller[HEADS]}); ‖θ0‖ = {start.norm():.4g}"
        )
        for source in self.tasks:
            for regime, prefixes in PREFIXES.items():
                there = [prefix for prefix in prefixes if (source.folder / f"{prefix}finetuned.pt").exists()]
                if not there:
                    continue
                (prefix,) = there
                tuned_path = source.folder / f"{prefix}finetuned.pt"
                start_path = source.folder / f"{prefix}zeroshot.pt"
                if start_path.exists() and start_path != first:
                    start_model, start_initial = self.read(start_path)
                    self.same(start_initial or start_model, start, start_path, first)
                tuned, initial = self.read(tuned_path)
                if initial is not None:
                    self.same(initial, start, tuned_path, first)
                self.alike(tuned, start, tuned_path, first)
                self.write(tuned, tuned_path, f"{regime}/{source.task}")
                self.say(f"checkpoints/{regime}/{source.task}: ‖τ‖ = {tuned.distance(start):.4g}")
        self.heads()

    def alike(self, model: Model, start: Model, path: Path, first: Path) -> None:
        """Refuses another architecture. What only seems to be one, for a file does not tell, an option can settle."""
        odd = [key for key, value in start.config.items() if model.config[key] != value]
        if not odd:
            return

        def shown(holder: Model, key: str) -> str:
            return f"{holder.config[key]} ({holder.teller[key]})" if key in holder.teller else str(holder.config[key])

        here = ", ".join(f"{key} {shown(model, key)}" for key in odd)
        there = ", ".join(f"{key} {shown(start, key)}" for key in odd)
        better = {key: (start if model.teller.get(key) == ASSUMED else model).config[key] for key in odd}
        cure = " ".join(f"{OPTIONS[key]} {better[key]}" for key in odd if key in OPTIONS)
        raise InputError(
            f"{path}: has {here} where {first} has {there}; expected one architecture"
            + (f", or {cure} where that holds for both" if set(odd) <= set(OPTIONS) else "")
        )

    def same(self, model: Model, start: Model, path: Path, first: Path) -> None:
        self.alike(model, start, path, first)
        if model.distance(start) > SAME_MODEL * start.norm():
            raise InputError(f"{path}: starts from another model than {first}; expected one θ0 for all tasks")

    def write(self, model: Model, source: Path, name: str) -> None:
        folder = self.out / "checkpoints" / name
        path = folder / "model.safetensors"
        if path.exists() and not made_here(path):
            raise InputError(f"{path}: not made by convert-checkpoints; expected an --out without it")
        with packed.whole(folder / "config.json") as part:
            part.write_text(json.dumps(model.config, indent=2) + "\n")
        with packed.whole(path) as part:
            # "pt" is what Hugging Face's loader asks for.
            save_file(model.tensors, part, {"format": "pt", MADE_HERE: str(source.relative_to(self.root))})

    def heads(self) -> None:
        """head_{Task}Val.pt, or head_{Task}.pt: rows of length logit_scale, and a bias of zeros. Of a task that is not
        wanted the file is not opened."""
        paths = {task_of(path.stem.removeprefix("head_")): path for path in sorted(self.root.glob("head_*.pt"))}
        for task, path in paths.items():
            if self.wanted is not None and task not in self.wanted:
                continue
            tensors = pickles.read(path, self.trust).tensors
            weight, bias = tensors.get("weight"), tensors.get("bias")
            if weight is None or weight.dim() != 2 or (bias is not None and bool((bias != 0).any())):
                raise InputError(f"{path}: no weight [classes, features] or a bias; expected a zero-shot head")
            norms = weight.double().norm(dim=1)
            scale = float(norms.mean())
            if not math.isfinite(scale) or scale <= 0 or float((norms / scale - 1).abs().max()) > 1e-2:
                raise InputError(f"{path}: rows of lengths {norms.min():.4g} to {norms.max():.4g}; expected one length")
            unit = (weight.double() / norms[:, None]).float().detach().numpy()
            out = self.out / "heads" / f"{task}.npz"
            with packed.whole(out) as part, part.open("wb") as stream:
                np.savez(stream, weight=unit, logit_scale=np.float32(scale))
            self.say(f"heads/{task}.npz: {len(unit)} classes, logit scale {scale:.4g}")


def made_here(path: Path) -> bool:
    try:
        with safe_open(path, "pt") as file:
            return MADE_HERE in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def prepare(options: argparse.Namespace, say: Say) -> None:
    torch.set_num_threads(1)  # copies gain nothing by threads, and lose a minute for each second on a busy machine
    Converter(options, say).run()
