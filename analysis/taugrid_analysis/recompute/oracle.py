# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' definitions in plain PyTorch and double precision, on one run's models and data.

`regime` names a fine-tuning regime; `edits` are the task vectors that are added, {task: α}; tasks count as in
/tasks, the control comes after the last. `index` is the path of a data set of rows in results.h5.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap
from torch.nn.functional import cross_entropy, interpolate, normalize
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
from transformers.utils import logging

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import text
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute import answers, decoder, draws, nets, texts
from taugrid_analysis.recompute.inputs import Inputs, fingerprint, inputs, require_as_saved
from taugrid_analysis.recompute.net import Net
from taugrid_analysis.run.regimes import STARTS, Regime, described
from taugrid_analysis.run.store import opened

Parameters = dict[str, Tensor]
logging.disable_progress_bar()
logging.set_verbosity_error()  # what a model has beside what is asked of it is no news
PART = 128  # points at a time
KEPT = 256  # outputs that are kept


def load(folder: Path, of_texts: bool, weights: bool = True) -> Any:
    """In double precision; the eager attention can be differentiated forward. Without `weights` config.json
    alone is read: whoever asks for that draws the parameters."""
    if weights:
        require_as_saved(folder / "model.safetensors")
    try:
        if nets.is_net(folder):
            return nets.load(folder, weights).double().eval()
        if of_texts:
            return texts.load(folder, weights).double().eval()
        kind = CLIPVisionModelWithProjection
        if weights:
            model = kind.from_pretrained(folder, attn_implementation="eager")
        else:
            model = kind._from_config(CLIPVisionConfig.from_pretrained(folder), attn_implementation="eager")
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        expected = (
            "a BERT, a RoBERTa, a T5 or a decoder (Llama, Mistral, Qwen, Gemma, GPT-2)"
            if of_texts
            else "a CLIP image tower, a ViT, a ConvNeXt, a ResNet or an MLP"
        )
        raise InputError(f"cannot be loaded ({first})", folder, expected) from error
    return model.double().eval()


def parameters(model: torch.nn.Module) -> Parameters:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def flat(p: Parameters) -> Tensor:
    return torch.cat([v.flatten() for v in p.values()])


def largest_eigenvalue(theta: Parameters, product: Callable[[Parameters], Tensor]) -> float:
    """The eigenvalue of largest magnitude of a symmetric `product` of directions like θ, by ARPACK."""
    size = flat(theta).numel()

    def operate(v: Array) -> Array:
        parts = torch.tensor(v).flatten().split([p.numel() for p in theta.values()])
        pieces = zip(theta.items(), parts, strict=True)
        output = product({k: part.view_as(p) for (k, p), part in pieces})
        return np.asarray(output.detach().numpy())

    operator = LinearOperator((size, size), operate, dtype=np.float64)
    eigenvalues = eigsh(operator, k=1, which="LM", tol=1e-5, ncv=10, return_eigenvectors=False)
    return float(eigenvalues[0])


@dataclass(frozen=True)
class Head:
    """How a task's logits follow from features: see the kinds of /head in docs/data.md."""

    kind: str
    weight: Tensor
    scale: float
    bias: Tensor
    words: Tensor
    sequences: tuple[tuple[int, ...], ...] = ()
    places: int = 0  # of texts and choices: tokens of the longest
    most: int = 0  # of choices: how many a row may have
    letters: Tensor | None = (
        None  # of sequences: what a class's score is divided by where classes are compared
    )

    @classmethod
    def of(cls, node: h5py.Group) -> Head:
        kind, none = text(node.attrs.get("kind", "cosine")), torch.zeros(0)
        if kind not in ("cosine", "affine", "words", *answers.KINDS):
            expected = "kind cosine, affine, words, sequences, text or choices"
            raise InputError(f"/head is {kind}", node.file.filename, expected)
        if kind == "sequences":
            letters = torch.tensor(node["letters"][()]) if "letters" in node else None
            return cls(kind, none, 1.0, none, none, answers.sequences_of(node), letters=letters)
        if kind == "text":
            return cls(kind, none, 1.0, none, none, (), int(node.file["train/targets"].shape[1]))
        if kind == "choices":
            shapes = [node.file[f"{split}/choices"].shape for split in ("train", "validation", "test")]
            count, longest = shapes[0][1], max(shape[2] for shape in shapes)
            return cls(kind, none, 1.0, none, none, (), longest, most=count)
        if kind == "words":
            return cls(kind, none, 1.0, none, torch.tensor(node["tokens"][()]).long())
        scale = float(node["weight"].attrs.get("logit_scale", 1))
        bias = torch.tensor(node["bias"][()]).double() if kind == "affine" else none
        return cls(kind, torch.tensor(node["weight"][()]).double(), scale, bias, none)

    @classmethod
    def trained(cls, path: Path) -> Head:
        """The classifier that the run trained for a task."""
        try:
            tensors = load_file(path)
            weight, bias = tensors["weight"].double(), tensors["bias"].double()
        except (OSError, KeyError, SafetensorError) as error:
            raise InputError(f"cannot be read ({error})", path, "the head that the run trained") from error
        return cls("affine", weight, 1.0, bias, torch.zeros(0))

    @property
    def classes(self) -> int:
        return self.most or len(self.sequences or (self.words if self.kind == "words" else self.weight))


class Oracle:
    """Everything that a run's numbers are defined by, read from its folder (or what config.toml names)."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.inputs: Inputs = inputs(run)
        self.results = opened(run / "results.h5", "a complete results.h5")
        self.tasks = [text(name) for name in self.results["tasks/name"][()]]
        source = self.results["tasks/data" if "tasks/data" in self.results else "tasks/name"]
        self.sources = [text(name) for name in source[()]]  # the name of each one's data
        self.control = text(self.inputs.config.get("data", {}).get("control", ""))
        named = [*self.tasks, *([self.control] if self.control else [])]
        self.files = [opened(self.inputs.task(name), "a packed task") for name in named]
        if "heads" in self.inputs.config:
            folder = run / "checkpoints" / "heads"
            self.heads = [Head.trained(folder / f"{name}.safetensors") for name in named]
        else:
            self.heads = [Head.of(file["head"]) for file in self.files]
        settings = self.inputs.config.get("model", {})
        self.words_frozen = settings.get("label_words", "trained") == "frozen"
        self.of_texts = text(self.files[0].attrs.get("modality", "image")) == "text"
        texts_of = (file["train/inputs"].shape[1] for file in self.files)
        self.width = max([*texts_of, *(head.places for head in self.heads)])  # tokens of a text
        self.mean_pooled = texts.mean_pooled(self.inputs.model())
        self.pretrained = self.inputs.config.get("model", {}).get("init", "pretrained") != "random"
        self.model = load(self.inputs.model(), self.of_texts, self.pretrained)
        self.is_net = isinstance(self.model, Net)
        self.stored_statistics = nets.statistics(self.model) if self.is_net else {}
        self.theta0 = parameters(self.model) if self.pretrained else self.random_theta()
        if not self.pretrained:
            for name, value in self.stored_statistics.items():
                value.fill_(float(name.endswith("running_var")))
        self.output = lru_cache(KEPT)(self._output)

    def close(self) -> None:
        """Closes results.h5 and the tasks' data, which others may then write."""
        for file in (self.results, *self.files):
            file.close()

    def fingerprint(self) -> str:
        """The fingerprint of θ0, by which the run tells its models apart."""
        if self.is_net:
            ordered = [self.theta0[name] for name in self.model.order()]
            every = [*ordered, *self.stored_statistics.values()]
        else:
            names = (texts if self.of_texts else draws).in_order(self.theta0)
            theta0 = texts.as_linear(self.model, self.theta0) if self.of_texts else self.theta0
            every = [theta0[name].contiguous() for name in names]
        return fingerprint(b"".join(tensor.float().numpy().tobytes() for tensor in every))

    def random_theta(self) -> Parameters:
        """As the run drew it from its seed."""
        stored = parameters(self.model)
        seed = draws.seed_for(self.inputs.seed(), "theta0")
        if self.is_net:
            return {name: v.double() for name, v in nets.random_theta(self.model, seed).items()}
        draw = (texts if self.of_texts else draws).random_theta
        if self.inputs.config.get("model", {}).get("drawn_as") == "open_clip":
            draw = draws.open_clip_theta
        drawn = draw(seed, self.model.config, stored)
        return {name: drawn[name].double() for name in stored}

    @cache  # noqa: B019 (an object a run)
    def regime(self, name: str) -> Regime:
        """What a regime is, as the file says."""
        return described(name, lambda path: self.results[path].attrs if path in self.results else {})

    @cache  # noqa: B019
    def tuned(self, regime: str, t: int) -> Parameters:
        """θ* of the regime that trained these task vectors."""
        folder = self.inputs.checkpoint(self.regime(regime).vectors_of, self.tasks[t])
        return parameters(load(folder, self.of_texts))

    @cache  # noqa: B019
    def joint(self, regime: str, name: str = "joint") -> Parameters:
        """θ* of one model of all tasks, or of some of them by its name."""
        return parameters(load(self.inputs.checkpoint(regime, name), self.of_texts))

    def tau(self, regime: str, t: int) -> Parameters:
        return {k: v - self.theta0[k] for k, v in self.tuned(regime, t).items()}

    def rows(self, index: str, t: int) -> list[int]:
        """The data of a task; of the control, whose rows no task shares, the whole data set."""
        stored = self.results[index]
        return [int(i) for i in (stored[t] if stored.ndim == 2 else stored[()]) if i >= 0]

    def control_rows(self, split: str) -> list[int]:
        """The rows on which the control is measured, by the run's seed."""
        attributes = self.results["model"].attrs
        wanted = attributes.get("control_points", attributes.get("evaluation_points", 2**31))
        count = self.count(split, -1)
        return draws.sample(self.inputs.seed(), split, self.control, count, int(wanted))

    def count(self, split: str, t: int) -> int:
        """How many samples task t's split has."""
        return len(self.files[t][f"{split}/inputs"])

    def stored(self, split: str, t: int, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Pictures [n, channels, h, w] of 0 to 255, or texts.batch(), and labels, of these rows of task t."""
        file = self.files[t]
        unique, back = np.unique(rows, return_inverse=True)
        if len(unique) and (unique[0] < 0 or unique[-1] >= self.count(split, t)):
            raise InputError(f"row {unique[-1]} is not there", f"{file.filename}:/{split}", "the run's rows")
        if self.heads[t].kind == "text":
            labels = torch.tensor(answers.targets(file[split], unique))[back]
        elif self.heads[t].kind == "choices":
            labels = torch.tensor(answers.choice_labels(file[split], unique))[back]
        else:
            labels = torch.tensor(file[f"{split}/labels"][unique][back])
        if self.of_texts:
            return texts.batch(file[split], unique, self.width)[back], labels
        return torch.tensor(file[f"{split}/inputs"][unique][back]).permute(0, 3, 1, 2), labels

    def normalised(self, t: int, pictures: Tensor) -> Tensor:
        """Texts are as they are."""
        if self.of_texts:
            return pictures
        moments = (self.files[t].attrs[name] for name in ("mean", "std"))
        mean, std = (torch.tensor(np.asarray(values)).double().view(-1, 1, 1) for values in moments)
        return (pictures.double() / 255 - mean) / std

    def sample(self, split: str, t: int, rows: list[int]) -> tuple[Tensor, Tensor]:
        """What the model takes of these rows of task t, and their labels."""
        pictures, labels = self.stored(split, t, rows)
        return self.normalised(t, pictures), labels

    def batch(self, t: int, step: int, size: int, least: float = 1.0) -> tuple[Tensor, Tensor]:
        """The training batch of this step: rows by the run's seed and, below 1, a crop of each picture.

        A crop keeps at least this share of the area and is resized to the whole, bicubic, rounded.
        """
        variants = int(self.inputs.config.get("variants", {}).get("seeds", 1))
        order = f"/{t % variants}" if t % variants else ""
        seed, purpose = self.inputs.seed(), f"batches/{self.sources[t]}{order}"
        count = self.count("train", t)
        rows = draws.batches(seed, purpose, count, (step + 1) * size)[-size:]
        pictures, labels = self.stored("train", t, rows)
        if least < 1:
            drawn = draws.seed_for(draws.seed_for(seed, purpose), f"crops{step}")
            high, wide = pictures.shape[2:]
            parts = zip(pictures.float(), draws.boxes(drawn, size, high, wide, least), strict=True)
            cut = [picture[None, :, top : top + h, left : left + w] for picture, (top, left, h, w) in parts]
            resized = [interpolate(crop, (high, wide), mode="bicubic", antialias=True) for crop in cut]
            pictures = torch.cat(resized).round().clamp(0, 255)
        return self.normalised(t, pictures), labels

    def points(self, index: str, t: int, split: str = "test") -> tuple[Tensor, Tensor]:
        return self.sample(split, t, self.rows(index, t))

    def encode(self, p: Parameters, x: Tensor, begin: int = -1) -> Tensor:
        """The features; of a masked language model its head's at the mask, of T5 the decoder's first state.

        p may hold statistics; without, a model has those that it was stored with. With `begin`, x is what
        that stage of a net gave.
        """
        if self.of_texts:
            z: Tensor = texts.encode(self.model, self.mean_pooled, p, x)
        elif self.is_net:
            z = functional_call(self.model, self.stored_statistics | p, (x, begin))
        else:
            z = functional_call(self.model, p, (), {"pixel_values": x}).image_embeds
        return z

    def free_copy(self, group: str) -> Parameters:
        """A copy of θ0 for training, in which the parameters that the group leaves free take gradients."""
        free = self.free(group)
        return {name: p.clone().requires_grad_(name in free) for name, p in self.theta0.items()}

    def reads_words(self, t: int) -> bool:
        """Whether the task's output are logits of label words, the vocabulary being a part of θ."""
        return self.heads[t].kind == "words" and not self.words_frozen

    def space(self, t: int) -> str:
        """Which one the task's output lies in."""
        if self.heads[t].kind == "choices":
            return "log-probabilities of each row's choices"
        if self.heads[t].kind in answers.KINDS:
            what = "decoder's output" if self.words_frozen else "logits of the vocabulary"
            return f"{what} at each token of the answers"
        if self.reads_words(t):
            return "logits"
        return texts.space(self.inputs.model()) if self.of_texts else "encoder output"

    def word_rows(self, p: Parameters, words: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of the vocabulary, or of the classifier that a model of pictures brings, and their biases."""
        if not self.is_net:
            return texts.word_rows(self.model, p, words)
        name = self.model.classifier_name
        return p[f"{name}.weight"][words], p[f"{name}.bias"][words]

    def read(self, p: Parameters, x: Tensor, t: int, begin: int = -1) -> Tensor:
        """The task's output, which a linearised model linearises; p, begin as of encode()."""
        head = self.heads[t]
        if head.kind == "choices":
            return answers.choice_scores(
                self.model, p, x, head.places, lambda z: self.vocabulary_logits(p, z)
            )
        if head.kind in answers.KINDS:
            states = answers.states(self.model, p, x, head.sequences, head.places)
            return self.read_states(p, states).flatten(1)
        z = self.encode(p, x, begin)
        if not self.reads_words(t):
            return z
        return self.word_logits(p, z, t)

    def read_states(self, p: Parameters, states: Tensor) -> Tensor:
        """What is linearised of a decoder's states: logits, or they themselves where words are frozen."""
        if self.words_frozen:
            return states
        return decoder.capped(self.model.config, states @ texts.vocabulary(p).T)

    def vocabulary_logits(self, p: Parameters, states: Tensor) -> Tensor:
        """The logits of a decoder's states: by θ's rows, or where words are frozen by θ0's."""
        z = self.read_states(p, states)
        return z @ texts.vocabulary(self.theta0).T if self.words_frozen else z

    def word_logits(self, p: Parameters, z: Tensor, t: int) -> Tensor:
        """The logits of the task's label words, of the features z."""
        rows, bias = self.word_rows(p, self.heads[t].words)
        logits = z @ rows.T + bias
        return logits if self.is_net else decoder.capped(self.model.config, logits)

    def logits(self, t: int, z: Tensor) -> Tensor:
        """The logits of an output, by constants alone; of texts [n, tokens, vocabulary]."""
        head = self.heads[t]
        if head.kind == "choices":
            return z
        if head.kind in answers.KINDS:
            z = z.unflatten(1, (len(answers.beginnings(head.sequences)) or head.places, -1))
            z = z @ texts.vocabulary(self.theta0).T if self.words_frozen else z
            return answers.scores(z, head.sequences) if head.sequences else z
        if head.kind == "cosine":
            return head.scale * normalize(z, dim=-1) @ head.weight.T
        if head.kind == "affine":
            return z @ head.weight.T + head.bias
        if not self.words_frozen:
            return z
        return self.word_logits(self.theta0, z, t)

    def right(self, t: int, logits: Tensor, y: Tensor) -> Tensor:
        """Which samples are: of texts those whose tokens all are, behind the right ones before them."""
        if self.heads[t].kind == "text":
            return ((logits.argmax(2) == y) | (y < 0)).all(1)
        return self.predicted(t, logits, y) == self.classes_of(t, y)

    def classes_of(self, t: int, y: Tensor) -> Tensor:
        """The class of each label; of choices the place of the right one."""
        return y[:, answers.RIGHT] if self.heads[t].kind == "choices" else y

    def predicted(self, t: int, logits: Tensor, y: Tensor) -> Tensor:
        """The class of each sample; with letters that of the largest logit a letter."""
        if self.heads[t].kind == "choices":
            parts = y[:, answers.PARTS :]
            return (logits / parts.clamp(min=1)).masked_fill(parts == 0, -torch.inf).argmax(1)
        letters = self.heads[t].letters
        return (logits if letters is None else logits / letters).argmax(1)

    def loss(self, t: int, logits: Tensor, y: Tensor, of: Tensor | None = None) -> Tensor:
        """The mean training loss of these samples; or their part of that of the samples with labels `of`."""
        head, of = self.heads[t], y if of is None else of
        if head.kind in answers.KINDS:
            return answers.loss_of(head.kind, head.sequences, logits, y, of)
        return cross_entropy(logits, y, reduction="sum") / len(of)

    def tangent(self, v: Parameters, x: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """f(x; θ0) and J(x)v, f the output of task t."""
        pair = jvp(lambda p: self.read(p, x, t), (self.theta0,), (v,))
        return pair[0], pair[1]

    def statistics(self, regime: str, edits: dict[int, float], step: Parameters | None = None) -> Parameters:
        """The statistics of batch norm in θ0 + Σ α τ, or in θ0 + step where these vectors are merged."""
        edits = {t: a for t, a in edits.items() if a != 0}
        if not self.stored_statistics or self.regime(regime).linear or not edits:
            return {}
        if step is None and list(edits.values()) == [1.0]:
            return self.tuned_statistics(regime, next(iter(edits)))
        rule = text(self.results["model"].attrs["buffers"])
        if rule == "average":
            averaged = dict(self.stored_statistics)
            for t, a in edits.items():
                for name, v in self.tuned_statistics(regime, t).items():
                    averaged[name] = averaged[name] + a * (v - self.stored_statistics[name])
            return {k: v.clamp_min(0) if k.endswith("running_var") else v for k, v in averaged.items()}
        if rule == "keep":
            return {}
        step = self.step(regime, edits) if step is None else step
        theta = {k: v + step[k] for k, v in self.theta0.items()}
        wanted = -(-int(self.results["model"].attrs["buffers_points"]) // len(edits))
        samples = [
            self.sample("train", t, self.rows("model/buffers_sample_index", t)[:wanted])[0] for t in edits
        ]
        count = -(-sum(len(x) for x in samples) // int(self.inputs.need("data", "evaluation_batch")))
        shares = [[x[k * len(x) // count : (k + 1) * len(x) // count] for x in samples] for k in range(count)]
        frozen = int(self.inputs.config.get("finetune", {}).get("first_stage", 0))
        batches = [torch.cat(parts) for parts in shares]
        return nets.statistics_of(self.model, self.stored_statistics | theta, batches, frozen)

    @cache  # noqa: B019
    def tuned_statistics(self, regime: str, t: int) -> Parameters:
        folder = self.inputs.checkpoint(self.regime(regime).vectors_of, self.tasks[t])
        return nets.statistics(load(folder, self.of_texts))

    def step(self, regime: str, edits: dict[int, float]) -> Parameters:
        """Σ α τ."""
        total = {k: torch.zeros_like(v) for k, v in self.theta0.items()}
        for t, a in edits.items():
            tau = self.tau(regime, t)
            for k in total:
                total[k] += a * tau[k]
        return total

    def through(
        self, regime: str, step: Parameters, x: Tensor, t: int, statistics: Parameters | None = None
    ) -> Tensor:
        """The output of task t at θ0 + step with these statistics, in the regime's function."""
        outputs = []
        for part in x.split(PART):
            if self.regime(regime).linear:
                f, jv = self.tangent(step, part, t)
                outputs.append((f + jv).detach())
                continue
            theta = {k: v + step[k] for k, v in self.theta0.items()}
            with torch.no_grad():
                outputs.append(self.read(theta | (statistics or {}), part, t))
        return torch.cat(outputs)

    def _output(
        self, regime: str, edits: tuple[tuple[int, float], ...], t: int, index: str, split: str
    ) -> Tensor:
        x, by_task = self.points(index, t, split)[0], dict(edits)
        return self.through(regime, self.step(regime, by_task), x, t, self.edited_statistics(regime, edits))

    @lru_cache(KEPT)  # noqa: B019
    def edited_statistics(self, regime: str, edits: tuple[tuple[int, float], ...]) -> Parameters:
        return self.statistics(regime, dict(edits))

    def outcome(
        self, regime: str, edits: dict[int, float], t: int, index: str, split: str = "test"
    ) -> tuple[Tensor, float]:
        """Which points the edited model has right, and its mean cross-entropy."""
        _, y = self.points(index, t, split)
        logits = self.logits(t, self.output(regime, tuple(edits.items()), t, index, split))
        return self.right(t, logits, y), float(self.loss(t, logits, y))

    def accuracy_and_loss(
        self, regime: str, edits: dict[int, float], t: int, index: str, split: str = "test"
    ) -> tuple[float, float]:
        right, loss = self.outcome(regime, edits, t, index, split)
        return float(right.double().mean()), loss

    def joint_outcome(self, regime: str, t: int, index: str, split: str = "test") -> tuple[Tensor, float]:
        """The same of one model of all tasks."""
        x, y = self.points(index, t, split)
        step = {k: v - self.theta0[k] for k, v in self.joint(regime).items()}
        statistics: Parameters = {}
        if self.stored_statistics and not self.regime(regime).linear:
            statistics = nets.statistics(load(self.inputs.checkpoint(regime, "joint"), self.of_texts))
        logits = self.logits(t, self.through(regime, step, x, t, statistics))
        return self.right(t, logits, y), float(self.loss(t, logits, y))

    def training_loss(self, regime: str, t: int, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        if not self.regime(regime).linear:
            tuned = self.stored_statistics and regime not in STARTS
            statistics = self.tuned_statistics(regime, t) if tuned else {}
            return self.loss(t, self.logits(t, self.read(statistics | p, x, t)), y)
        f, jv = self.tangent({k: v - self.theta0[k] for k, v in p.items()}, x, t)
        return self.loss(t, self.logits(t, f + jv), y)

    def largest_eigenvalue(self, regime: str, t: int) -> float:
        """λ_max of the training loss at θ*, or at θ0, with its sign, by ARPACK."""
        x, y = self.points(f"smoothness/{regime}/sample_index", t, "train")
        whole = self.theta0 if regime in STARTS else self.tuned(regime, t)
        free = self.free(f"smoothness/{regime}")
        theta = {name: whole[name] for name in free}

        def loss(z: Tensor) -> Tensor:
            return self.loss(t, self.logits(t, z), y)

        if self.regime(regime).linear:  # linear in θ: H = Jᵀ (∇² of the loss in the output) J
            z = self.through(regime, self.step(regime, {t: 1.0}), x, t)
            start = {name: self.theta0[name] for name in free}
            back = vjp(lambda p: self.read(self.theta0 | p, x, t), start)[1]
            still = {name: torch.zeros_like(p) for name, p in self.theta0.items()}

            def product(direction: Parameters) -> Tensor:
                along = self.tangent(still | direction, x, t)[1]
                return flat(back(jvp(grad(loss), (z,), (along,))[1])[0])
        else:
            gradient = grad(lambda p: self.training_loss(regime, t, whole | p, x, y))

            def product(direction: Parameters) -> Tensor:
                return flat(jvp(gradient, (theta,), (direction,))[1])

        return largest_eigenvalue(theta, product)

    def gradient_of_logit(self, theta: Parameters, t: int, c: int, x: Tensor, free: list[str]) -> Tensor:
        """The gradient of logit c of task t at one point [1, …], in the parameters that are `free`."""
        moved = {name: theta[name] for name in free}
        return flat(grad(lambda p: self.logits(t, self.read(theta | p, x, t))[0, c])(moved)).detach()

    def free(self, group: str) -> list[str]:
        """The parameters that a group's derivatives are in: from the stage that it names on, or all."""
        names, first = list(self.theta0), int(self.results[group].attrs.get("first_stage", 0))
        if first == 0:
            return names
        if self.of_texts:
            kept = {name for name in names if self.words_frozen and texts.is_head(name)}
            return [n for n in names if texts.stage(n, self.model.config) >= first and n not in kept]
        if isinstance(self.model, Net):
            return self.model.from_stage(first)
        layers = {name: re.search(r"\.layers\.(\d+)\.", name) for name in names}
        below = ("vision_model.embeddings.", "vision_model.pre_layrnorm.")
        return [
            name
            for name, layer in layers.items()
            if (int(layer[1]) + 1 >= first if layer else not name.startswith(below))
        ]

    def kernel(self, t: int, index: str) -> Tensor:
        """K [classes, n, T, n] of task t's logits at θ0, by contracting whole Jacobians."""
        count = len(self.tasks)
        x = torch.cat([self.points(index, s, "train")[0] for s in range(count)])
        slopes = vmap(jacrev(lambda p, row: self.logits(t, self.read(p, row[None], t))[0]), (None, 0))
        # [T n, C, P]
        jacobian = torch.cat([v.flatten(2) for v in slopes(self.theta0, x).values()], 2).detach()
        n = len(x) // count
        gram = torch.einsum("icp,jcp->cij", jacobian[t * n : (t + 1) * n], jacobian)
        return gram.unflatten(2, (count, n))
