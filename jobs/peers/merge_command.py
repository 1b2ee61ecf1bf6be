# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge against mergekit's command, in turn: TIES of eight checkpoints of 350 MB that lie in the page cache.
Both are whole processes: their start, reading, merging and writing count."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

MODELS, LAYERS, WIDTH, INNER, WORDS, SEED = 8, 10, 768, 2560, 3000, 15
DENSITY = 0.2
# Llama's shape, of which mergekit 0.1.5 knows the names (BERT's it cannot merge): 87 million numbers.
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER,
    "num_attention_heads": 12, "num_key_value_heads": 12, "num_hidden_layers": LAYERS, "vocab_size": WORDS,
    "tie_word_embeddings": False,
}  # fmt: skip


@dataclass
class Cost:
    """What a process took: wall-clock seconds, and the most bytes of anonymous memory (mapped pages do not count)."""

    seconds: float
    anonymous: int


def shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (WORDS, WIDTH),
        "model.norm.weight": (WIDTH,),
        "lm_head.weight": (WORDS, WIDTH),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        shapes |= {f"{prefix}.self_attn.{x}_proj.weight": (WIDTH, WIDTH) for x in "qkvo"}
        shapes |= {f"{prefix}.mlp.{x}_proj.weight": (INNER, WIDTH) for x in ("gate", "up")}
        shapes[f"{prefix}.mlp.down_proj.weight"] = (WIDTH, INNER)
        shapes |= {f"{prefix}.{x}_layernorm.weight": (WIDTH,) for x in ("input", "post_attention")}
    return shapes


def write(folder: Path, tensors: dict[str, Tensor]) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def write_inputs(folder: Path) -> None:
    """base, model0 … model7, and a recipe for each of both."""
    generator = torch.Generator().manual_seed(SEED)
    base = {name: 0.02 * torch.randn(shape, generator=generator) for name, shape in shapes().items()}
    write(folder / "base", base)
    for i in range(MODELS):
        tuned = {name: v + 1e-3 * torch.randn(v.shape, generator=generator) for name, v in base.items()}
        write(folder / f"model{i}", tuned)
    names = [str(folder / f"model{i}") for i in range(MODELS)]
    (folder / "recipe.toml").write_text(
        f'merge_method = "ties"\nbase_model = "base"\nout = "ours"\n'
        f'parameters = {{ density = {DENSITY}, scope = "tensor", cut = "exact", zero_sign = "positive" }}\n'
        + "models = [" + ", ".join(f'{{ model = "{name}" }}' for name in names) + "]\n"
    )
    # JSON is YAML. Without normalize it would sum; ours takes the mean, as both publish.
    (folder / "recipe.yml").write_text(json.dumps({
        "merge_method": "ties", "base_model": str(folder / "base"), "dtype": "float32",
        "parameters": {"normalize": True},
        "models": [{"model": name, "parameters": {"density": DENSITY, "weight": 1.0}} for name in names],
    }))  # fmt: skip


def run(command: list[str | Path], environment: dict[str, str]) -> Cost:
    """Raises RuntimeError with what the process wrote where it fails."""
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


def differing(ours: Path, theirs: Path) -> float:
    """The share of numbers that differ by more than rounding. Of equal magnitudes at a cut, mergekit keeps some by
    chance, so that few may."""
    merged = load_file(ours / "model.safetensors")
    count = total = 0
    for path in sorted(theirs.glob("*.safetensors")):
        for name, expected in load_file(path).items():
            count += int(((merged[name] - expected).abs() > 1e-6).sum())
            total += expected.numel()
    if total != sum(torch.Size(shape).numel() for shape in shapes().values()):
        raise RuntimeError(f"mergekit wrote {total} numbers, which are not the model's")
    return count / total


def compare(program: Path, rounds: int) -> tuple[list[float], list[float], float]:
    """Returns mergekit's seconds over ours and our anonymous memory over mergekit's, a round each; and `differing`."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    times, memory, difference = [], [], 0.0
    with tempfile.TemporaryDirectory(prefix="taugrid-merge-") as name:
        folder = Path(name)
        write_inputs(folder)
        for turn in range(rounds):
            for out in ("ours", "theirs"):
                subprocess.run(["rm", "-rf", folder / out], check=True)
            ours = run([program, "merge", folder / "recipe.toml"], environment)
            theirs = run(
                [sys.executable, "-m", "mergekit.scripts.run_yaml", folder / "recipe.yml", folder / "theirs",
                 "--no-copy-tokenizer", "--no-write-model-card", "--quiet"],
                environment,
            )  # fmt: skip
            print(f"# round {turn + 1}: merge/command: {ours.seconds:.2f} s and {ours.anonymous / 2**20:.0f} MiB, "
                  f"mergekit: {theirs.seconds:.2f} s and {theirs.anonymous / 2**20:.0f} MiB", file=sys.stderr)
            times.append(theirs.seconds / ours.seconds)
            memory.append(ours.anonymous / theirs.anonymous)
            difference = max(difference, differing(folder / "ours", folder / "theirs"))
    return times, memory, difference


if __name__ == "__main__":
    measured = compare(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
    print([statistics.median(v) for v in measured[:2]], measured)
