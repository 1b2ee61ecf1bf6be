# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Worlds of whole answers: classes that sequences of several tokens answer, of which some begin alike, and a task that
numbers answer."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import torch
from text_worlds import LABELS, WORDS, PromptWorld, Source, named, pack, pack_prompts
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM
from world import EXPERIMENT

ANSWERS = {"moods": ["sad", "sad hot", "glad"], "topics": ["art", "law sea", "law", "law sea war"],
           "pairs": ["no", "yes"], "control": ["hot", "cold", "hot wet"]}
PROMPTS = {"pairs": "{text} ? {second} ."}
PLAIN = "{text} . it is"
MARKS = ("Consider the sentences '{}' and '{}'. On a scale from 1 (completely different) to 5 (completely similar), "
         "rate the similarity.")
LONGEST = 40


def tokenizer() -> Tokenizer:
    """Makes a tokenizer like T5's, to which numbers are several tokens."""
    words = ["it", "is", *MARKS.split(), *dict.fromkeys(word for all_of in LABELS.values() for word in all_of),
             *WORDS]
    scores = {"<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0} | {f"\u2581{word}": -2.0 for word in words}
    scores |= {letter: -9.0 for letter in "\u25810123456789.?'w"}
    unigram = Tokenizer(models.Unigram(list(scores.items()), unk_id=2))
    unigram.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    unigram.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    unigram.add_special_tokens(["<pad>", "</s>", "<unk>"])
    return unigram


def mark(source: Source) -> tuple[str, str, float]:
    """Which of five words stands in the first text is how much the texts are alike."""
    level = int(source.rng.integers(5))
    return f"it w{level} w{level}", source.text("moods", 0, 4), 0.6 + level


def padded(rows: list[list[int]], behind: int) -> Tensor:
    return torch.tensor([row + [behind] * (max(map(len, rows)) - len(row)) for row in rows])


def prompts_and_answers(source: Source, count: int = 48) -> Iterator[tuple[str, str]]:
    """A prompt and its answer of every task in turn."""
    for i in range(count):
        name = [*ANSWERS, "stsb"][i % (len(ANSWERS) + 1)]
        if name == "stsb":
            first, second, level = mark(source)
            yield MARKS.format(first, second), f"{level:.1f}"
            continue
        label, first, second = source.row(name)
        yield PROMPTS.get(name, PLAIN).format(text=first, second=second), ANSWERS[name][label]


EVERY = EXPERIMENT.split("[averages]")[0].replace('"corners"]', '"corners"]\ncontrol = "plaids"').replace(
    "steps = 25", "steps = 15") + """
[smoothness]
points = 12
chunk = 8
max_basis = 8
tolerance = 1e-2

[barrier]
points = 12
chunk = 8

[ntk]
points = 4
logits = 2

[addition]
alpha = [0.0, 0.5, 1.0]

[cost]
steps = 2

[merging]
methods = ["fisher"]
[merging.fisher]
points = 8
"""
TEXTS = EXPERIMENT.split("[disentanglement]")[0].replace("steps = 25", "steps = 12") + """
[generation]
tokens = 6
points = 20
alpha = [0.5, 1.0]

[addition]
alpha = [0.0, 0.5, 1.0]

[smoothness]
points = 8
chunk = 8
max_basis = 6
tolerance = 1e-1
"""


def with_texts(text: str) -> str:
    return named(text).replace('["moods", "topics", "pairs"]', '["moods", "stsb"]')


class AnswersWorld(PromptWorld):
    def texts(self, path: Path, text: str = TEXTS) -> Path:
        self.elsewhere(path, text)
        path.write_text(with_texts(path.read_text()))
        return path


def packed_world(folder: Path, *more: str) -> AnswersWorld:
    """Data of the model that lies in the folder; `more`: further arguments of the classes' packing."""
    pack_prompts(folder, PROMPTS, PLAIN, LONGEST, ANSWERS, more)
    source, rows = Source(3), {"train": 60, "validation": 24, "test": 30}
    (folder / "hub" / "stsb").mkdir(parents=True)
    for split in ("train", "validation"):  # the hub's validation is our test
        examples = [mark(source) for _ in range(sum(rows.values()) if split == "train" else rows["test"])]
        lines = [json.dumps({"sentence1": a, "sentence2": b, "label": c}) for a, b, c in examples]
        (folder / "hub" / "stsb" / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    pack([["text-tasks", "--only", "stsb", "--data-location", f"{folder}/hub", "--model", f"{folder}/model", "--out",
           f"{folder}/data", "--tokens", str(LONGEST), "--answer-tokens", "6"]])
    world = AnswersWorld(folder)
    world.experiment.write_text(named(EVERY))
    return world


def assert_labels_are_told_apart(results: Path) -> None:
    """Better than chance, and better still where they were trained."""
    with h5py.File(results) as file:
        spaces = {space.decode() for space in file["tasks/space"][()]}
        assert spaces == {"logits of the vocabulary at each token of the answers"} and "metric" not in file["tasks"]
        chance = 1 / file["tasks/classes"][()]
        before, after = (file[f"single_task/{name}/accuracy"][()] for name in ("pretrained", "standard"))
        assert (before - chance).mean() > 0.15, before
        assert after.mean() > chance.mean() + 0.15
        for regime in ("standard", "linear"):
            loss = file[f"training/{regime}/loss"][()]
            assert loss[:, -5:].mean() < loss[:, :5].mean()


def train_decoder(folder: Path, steps: int, pairs: Callable[[Source], Iterable[tuple[str, str]]],
                  end: Sequence[int] = ()) -> None:
    """A small Llama, trained for some seconds on one core on what goes on from contexts, with `end` behind it."""
    torch.set_num_threads(1)
    torch.manual_seed(11)
    known = tokenizer()
    config: dict[str, Any] = {
        "vocab_size": known.get_vocab_size(), "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64,
        "pad_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": True,
    }
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **config), attn_implementation="eager")
    source, optimiser = Source(2), torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        lines, wanted = [], []
        for context, answer in pairs(source):
            before = known.encode(context, add_special_tokens=False).ids
            line = [*known.encode(f"{context} {answer}", add_special_tokens=False).ids, *end]
            lines.append(line)
            wanted.append([-100] * (len(before) - 1) + line[len(before):])
        logits = model(input_ids=padded(lines, 0), use_cache=False).logits[:, :-1]
        loss = cross_entropy(logits.flatten(0, 1), padded(wanted, -100).flatten(), ignore_index=-100)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    known.save(str(folder / "tokenizer.json"))


def shorten(world: PromptWorld, tokens: int) -> None:
    """The world's model then takes so many tokens."""
    path = world.folder / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_position_embeddings": tokens}))
