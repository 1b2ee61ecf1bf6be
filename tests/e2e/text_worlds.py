# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What worlds of texts share: their folder, prompts of a few labels, how they are packed, what is measured again, and
how a spoilt one is refused."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import analysis_command
import h5py
import numpy as np
import torch
from launch import PATIENCE, run
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel
from world import EXPERIMENT

PROJECT = Path(__file__).parents[2]
WORDS = [f"w{i}" for i in range(40)]
LABELS = {"moods": ["sad", "plain", "glad"], "topics": ["art", "law", "sea", "war"], "pairs": ["no", "yes"],
          "control": ["hot", "cold", "wet"]}

FEW = EXPERIMENT.split("[linearity]")[0] + """
[smoothness]
points = 24
chunk = 10
max_basis = 12
tolerance = 1e-3

[ntk]
points = 6
logits = 2

[cost]
steps = 3
"""


class Source:
    """A class prefers a few words; texts have any length."""

    def __init__(self, seed: int) -> None:
        chosen = np.random.default_rng(1)
        self.preferred = {name: chosen.choice(WORDS, (len(words), 4)) for name, words in LABELS.items()}
        self.rng = np.random.default_rng(seed)

    def text(self, name: str, label: int, most: int = 11) -> str:
        words = self.rng.choice(WORDS, self.rng.integers(2, most))
        chosen = self.rng.random(len(words)) < 0.5
        words[chosen] = self.rng.choice(self.preferred[name][label], chosen.sum())
        return " ".join(words)

    def row(self, name: str) -> tuple[int, str, str]:
        label = int(self.rng.integers(len(LABELS[name])))
        if name != "pairs":
            return label, self.text(name, label), ""
        return label, self.text(name, label, 6), self.text(name, label, 6)


def word_tokenizer(vocabulary: list[str]) -> Tokenizer:
    """A token a word; others are <unk>."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def filled_prompts(source: Source, tokenizer: Tokenizer, prompts: dict[str, str], plain: str, longest: int,
                   count: int = 48) -> tuple[Tensor, Tensor, Tensor]:
    """Prompts of every task in turn, padded with 0 [count, longest], how many tokens each has, and its label word's."""
    ids = torch.zeros(count, longest, dtype=torch.long)
    lengths, wanted = torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.long)
    for i in range(count):
        name = list(LABELS)[i % len(LABELS)]
        label, first, second = source.row(name)
        filled = prompts.get(name, plain).format(text=first, second=second)
        tokens = torch.tensor(tokenizer.encode(filled).ids[:longest])
        ids[i, : len(tokens)] = tokens
        lengths[i], wanted[i] = len(tokens), tokenizer.token_to_id(LABELS[name][label])
    return ids, lengths, wanted


@dataclass(frozen=True)
class TextWorld:
    folder: Path

    @property
    def experiment(self) -> Path:
        return self.folder / "papers.toml"

    def task(self, name: str) -> Path:
        return self.folder / "data" / f"{name}.h5"


def train_on_prompts(model: PreTrainedModel, tokenizer: Tokenizer, prompts: dict[str, str], plain: str, longest: int,
                     answer: Callable[[Tensor, Tensor], Tensor], folder: Path) -> None:
    """Trains for some seconds on one core, and writes model and tokenizer. `answer`: the vocabulary's logits [n, words]
    of n prompts' ids [n, tokens] and lengths [n]."""
    source, optimiser = Source(2), torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(200):
        ids, lengths, wanted = filled_prompts(source, tokenizer, prompts, plain, longest)
        loss = cross_entropy(answer(ids, lengths), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def pack(calls: list[list[str]]) -> None:
    """Calls of jobs/prepare, in one process."""
    several = f"import sys; sys.path.insert(0, '{PROJECT}/jobs/prepare'); from command import main\n"
    subprocess.run([sys.executable, "-c", several + f"sys.exit(max(main(call) for call in {calls}))"], check=True,
                   timeout=PATIENCE)


class PromptWorld(TextWorld):
    def elsewhere(self, path: Path, text: str) -> Path:
        for name in ("model", "data"):
            text = text.replace(f'"{name}"', f'"{self.folder / name}"')
        path.write_text(named(text))
        return path


def named(text: str) -> str:
    tasks = text.replace('["stripes", "blobs", "corners"]', '["moods", "topics", "pairs"]')
    return tasks.replace('"plaids"', '"control"')


def pack_prompts(folder: Path, prompts: dict[str, str], plain: str, longest: int,
                 labels: dict[str, list[str]] = LABELS, more: tuple[str, ...] = ()) -> None:
    """Texts of every task, packed for the model that lies in the folder; `more`: further arguments of each call."""
    source, calls = Source(3), []
    for name, words in labels.items():
        (folder / "texts" / name).mkdir(parents=True)
        for split, rows in {"train": 70, "dev": 30, "test": 60}.items():
            texts = [source.row(name) for _ in range(rows)]
            lines = [f"c{label}\t{first}\t{second}" for label, first, second in texts]
            (folder / "texts" / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
        calls.append(["text", f"{folder}/texts/{name}", "--label", "1", "--text", "2", "--tokens", str(longest),
                      "--model", f"{folder}/model", "--out", f"{folder}/data", "--prompt", prompts.get(name, plain),
                      "--words", *(f"c{i}={word}" for i, word in enumerate(words)),
                      *(["--second", "3"] if name == "pairs" else []), *more])
    pack(calls)


def again(folder: Path) -> None:
    check = analysis_command.called("recompute", folder, "--points", "12")
    assert check.returncode == 0, check.stdout + check.stderr
    assert "tasks: space is another than the readout's" in check.stdout and "does not know" not in check.stdout
    assert "numbers hold" in check.stdout.splitlines()[-1]


def refused_in_one_line(world: TextWorld, change: Callable[[Any], object], expected: str, tmp_path: Path,
                        ranks: int) -> None:
    """A copy of the world, changed so, ends a run with 2 and one line, before there is a run folder."""
    copy = type(world)(tmp_path / "world")
    for part in ("model", "data"):
        shutil.copytree(world.folder / part, copy.folder / part)
    copy.experiment.write_bytes(world.experiment.read_bytes())
    change(copy)
    refused = run(ranks, "run", copy.experiment, "--run-dir", tmp_path / "run")
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.count("\n") == 1 and expected in refused.stderr, refused.stderr
    assert not (tmp_path / "run").exists()


def assert_answers_are_learnt(folder: Path, architecture: str, regimes: tuple[str, ...]) -> None:
    """θ0 is right more often than by chance, every regime's loss sinks, and all of θ is trained."""
    with h5py.File(folder / "results.h5") as file:
        assert file["model"].attrs["architecture"] == architecture
        assert [space.decode() for space in file["tasks/space"][()]] == ["logits"] * 3
        chance = 1 / file["tasks/classes"][()]
        before, after = (file[f"single_task/{name}/accuracy"][()] for name in ("pretrained", "standard"))
        assert (before - chance).mean() > 0.15, before
        for regime in regimes:
            loss = file[f"training/{regime}/loss"][()]
            assert loss[:, -5:].mean() < loss[:, :5].mean()
        assert after.mean() > chance.mean() + 0.15


def changed_tensors(world: TextWorld, folder: Path, regime: str) -> tuple[set[str], set[str]]:
    """Names of tensors: all of the model's, and those that are others after training on the first task."""
    before = load_file(world.folder / "model" / "model.safetensors")
    after = load_file(folder / "checkpoints" / regime / "moods" / "model.safetensors")
    return set(before), {name for name in after if not torch.equal(before[name], after[name])}


def with_masks(world: TextWorld) -> None:
    """Makes the first task one of prompts with masks, which a model that answers behind a prompt has not."""
    with h5py.File(world.task("moods"), "r+") as file:
        for split in ("train", "validation", "test"):
            file[split]["mask"] = file[split]["lengths"][()] - 1
