# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge against mergekit's command, in turn, on the same recipe and the same folders, which lie in the page
cache where memory holds them. Both are whole processes: their start, reading, merging and writing count."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

SEED = 15


@dataclass
class Case:
    """What is merged, in the shape of a Llama, of which mergekit 0.1.5 knows the names (BERT's it cannot merge)."""

    name: str
    recipe: dict  # of mergekit, with names of folders: base, m0, m1, …
    models: int
    layers: int
    width: int
    inner: int
    words: int
    dtype: torch.dtype
    parts: int
    time: float  # times as long as ours that mergekit takes, at least
    memory: float  # of mergekit's that ours is, at most
    rounds: int | None = None  # None: as many as of the other cases
    draws: bool = False  # by chance, so that numbers differ
    times: list[float] = field(default_factory=list)
    shares_of_memory: list[float] = field(default_factory=list)
    differing: float = 0.0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.words, self.width),
            "model.norm.weight": (self.width,),
            "lm_head.weight": (self.words, self.width),
        }
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}"
            shapes |= {f"{prefix}.self_attn.{x}_proj.weight": (self.width, self.width) for x in "qkvo"}
            shapes |= {f"{prefix}.mlp.{x}_proj.weight": (self.inner, self.width) for x in ("gate", "up")}
            shapes[f"{prefix}.mlp.down_proj.weight"] = (self.width, self.inner)
            shapes |= {f"{prefix}.{x}_layernorm.weight": (self.width,) for x in ("input", "post_attention")}
        return shapes

    def numbers(self) -> int:
        return sum(torch.Size(shape).numel() for shape in self.shapes().values())

    def bytes(self) -> int:
        """On the disk: the base, the models, and what both make."""
        return (self.models + 3) * self.numbers() * self.dtype.itemsize

    def inputs(self) -> tuple:
        """Cases that share this are of the same folders."""
        return self.models, self.layers, self.width, self.inner, self.words, self.dtype, self.parts


def bfloat16(name: str, time: float, recipe: dict, draws: bool = False) -> Case:
    """A base and three models of 1.07 billion numbers in two parts. mergekit subtracts and sums in float32, as ours
    does; in bfloat16 it would be less exact."""
    recipe = recipe | {"dtype": "float32", "out_dtype": "bfloat16"}
    return Case(f"merge/bfloat16_{name}", recipe, 3, 14, 2048, 8192, 32000, torch.bfloat16, 2, time, 0.1, 1, draws)


def weighed(count: int, **parameters: float) -> list[dict]:
    return [{"model": f"m{i}", "parameters": parameters | {"weight": 1.0}} for i in range(count)]


CASES = [
    Case("merge/command", {
        "merge_method": "ties", "base_model": "base", "dtype": "float32", "parameters": {"normalize": True},
        "models": weighed(8, density=0.2),
    }, 8, 10, 768, 2560, 3000, torch.float32, 1, 4, 1 / 3),
    bfloat16("linear", 10, {"merge_method": "linear", "models": weighed(3)}),
    bfloat16("slerp", 10, {
        "merge_method": "slerp", "base_model": "m0", "parameters": {"t": 0.4},
        "models": [{"model": "m0"}, {"model": "m1"}],
    }),
    bfloat16("ties", 10, {
        "merge_method": "ties", "base_model": "base", "parameters": {"normalize": True},
        "models": weighed(3, density=0.5),
    }),
    bfloat16("dare", 10, {
        "merge_method": "dare_ties", "base_model": "base", "models": weighed(3, density=0.5),
    }, draws=True),
]  # fmt: skip


@dataclass
class Cost:
    """What a process took: wall-clock seconds, and the most bytes of anonymous memory (mapped pages do not count)."""

    seconds: float
    anonymous: int


def write(folder: Path, case: Case, tensors: dict[str, Tensor]) -> None:
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": case.width,
        "intermediate_size": case.inner, "num_attention_heads": 16, "num_key_value_heads": 16,
        "num_hidden_layers": case.layers, "vocab_size": case.words, "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    names, places = list(tensors), {}
    for part in range(case.parts):
        file = "model.safetensors" if case.parts == 1 else f"model-{part + 1:05}-of-{case.parts:05}.safetensors"
        mine = names[part * len(names) // case.parts : (part + 1) * len(names) // case.parts]
        save_file({name: tensors[name] for name in mine}, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(mine, file)
    if case.parts > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def write_inputs(folder: Path, case: Case) -> None:
    """base, m0, m1, …"""
    generator = torch.Generator().manual_seed(SEED)
    base = {
        name: (0.02 * torch.randn(shape, generator=generator)).to(case.dtype) for name, shape in case.shapes().items()
    }
    write(folder / "base", case, base)
    for i in range(case.models):
        write(folder / f"m{i}", case, {
            name: (v + 1e-3 * torch.randn(v.shape, generator=generator)).to(case.dtype) for name, v in base.items()
        })  # fmt: skip


def write_recipe(folder: Path, case: Case) -> Path:
    """JSON is YAML."""
    models = [entry | {"model": str(folder / entry["model"])} for entry in case.recipe["models"]]
    recipe = case.recipe | {"models": models}
    if "base_model" in recipe:
        recipe["base_model"] = str(folder / recipe["base_model"])
    path = folder / f"{case.name.replace('/', '-')}.yml"
    path.write_text(json.dumps(recipe))
    return path


def run(command: list[str | Path], environment: dict[str, str]) -> Cost:
    """Raises RuntimeError with what the process wrote where it fails."""
    os.sync()  # what an earlier process wrote reaches the disk in its own time
    with tempfile.TemporaryFile("w+") as log:
        began = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        most = 0
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            anonymous = [line for line in status.splitlines() if line.startswith("RssAnon:")]
            most = max(most, int(anonymous[0].split()[1]) * 1024 if anonymous else 0)
            time.sleep(0.005)
        seconds = time.monotonic() - began
        if process.returncode != 0:
            log.seek(0)
            raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{log.read()}")
    return Cost(seconds, most)


def tensors_of(folder: Path) -> Iterator[tuple[str, Tensor]]:
    for path in sorted(folder.glob("*.safetensors")):
        yield from load_file(path).items()


def differing(case: Case, ours: Path, theirs: Path) -> float:
    """The share of numbers that differ, of float32 by more than rounding. Of equal magnitudes at a cut, mergekit keeps
    some by chance, so that few may."""
    expected = dict(tensors_of(theirs))
    count = total = 0
    for name, merged in tensors_of(ours):
        apart = merged != expected[name] if case.dtype != torch.float32 else (merged - expected[name]).abs() > 1e-6
        count += int(apart.sum())
        total += merged.numel()
    if total != case.numbers() or len(expected) != len(case.shapes()):
        raise RuntimeError(f"{case.name}: {total} numbers were merged, which are not the model's {case.numbers()}")
    return count / total


def merge_in_turn(case: Case, program: Path, folder: Path, rounds: int) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    recipe = write_recipe(folder, case)
    for turn in range(case.rounds or rounds):
        ours = run([program, "merge", recipe, folder / "ours"], environment)
        theirs = run(
            [sys.executable, "-m", "mergekit.scripts.run_yaml", recipe, folder / "theirs", "--no-copy-tokenizer",
             "--no-write-model-card", "--quiet"],
            environment,
        )  # fmt: skip
        print(f"# round {turn + 1}: {case.name}: {ours.seconds:.2f} s and {ours.anonymous / 2**20:.0f} MiB, "
              f"mergekit: {theirs.seconds:.2f} s and {theirs.anonymous / 2**20:.0f} MiB", file=sys.stderr, flush=True)
        case.times.append(theirs.seconds / ours.seconds)
        case.shares_of_memory.append(ours.anonymous / theirs.anonymous)
        if not case.draws:
            case.differing = max(case.differing, differing(case, folder / "ours", folder / "theirs"))
        for out in ("ours", "theirs"):
            shutil.rmtree(folder / out)


def compare(cases: list[Case], program: Path, rounds: int) -> list[str]:
    """Fills the cases' ratios; returns a line for each that the disk has no room for."""
    left_out = []
    while cases:
        same = [case for case in cases if case.inputs() == cases[0].inputs()]
        cases = [case for case in cases if case not in same]
        with tempfile.TemporaryDirectory(prefix="taugrid-merge-") as name:
            free = shutil.disk_usage(name).free
            if free < 1.1 * same[0].bytes():
                room = f"{same[0].bytes() / 1e9:.0f} GB of files, and {name} has room for {free / 1e9:.0f}"
                left_out += [f"{case.name}: left out: {room}" for case in same]
                continue
            write_inputs(Path(name), same[0])
            for case in same:
                merge_in_turn(case, program, Path(name), rounds)
    return left_out


if __name__ == "__main__":
    chosen = [case for case in CASES if sys.argv[3] in case.name]
    print(*compare(chosen, Path(sys.argv[1]), int(sys.argv[2])), sep="\n")
    for each in chosen:
        print(each.name, each.times and statistics.median(each.times), each.shares_of_memory, each.differing)
