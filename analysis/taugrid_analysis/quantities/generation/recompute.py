# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What models say on the tasks that are answered by texts again.

Decoded greedily, a whole pass for each token, and measured with SciPy.
"""

from __future__ import annotations

import json
import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor
from torch.func import jvp

from taugrid_analysis.files import text
from taugrid_analysis.recompute import answers, texts
from taugrid_analysis.recompute.checks import Check, Place, Reading, exact, names, stored
from taugrid_analysis.recompute.oracle import Oracle, Parameters
from taugrid_analysis.run.regimes import STARTS

GROUP, SUMS = "generation", "generation_sum"
MEASURES = ("value", "exact_match", "f1", "token_accuracy", "pearson", "spearman", "no_number")
SLOW = 12  # places of one quantity: each is a whole decoding


def checks(oracle: Oracle) -> Iterator[Check]:
    if not names(oracle, GROUP):
        return
    answered = [t for t in range(len(oracle.tasks)) if oracle.heads[t].kind == "text"]

    @lru_cache(4)
    def again(regime: str, edits: tuple[tuple[int, float], ...], t: int) -> tuple[Tensor, dict[str, float]]:
        return measured(oracle, regime, dict(edits), t)

    def single(regime: str, t: int) -> tuple[Tensor, dict[str, float]]:
        return again(regime, () if regime in STARTS else ((t, 1.0),), t)

    def summed(place: Place) -> dict[str, float]:
        regime, a, t = place
        alpha = float(oracle.results[f"{SUMS}/{regime}/alpha"][a])
        return again(regime, tuple((s, alpha) for s in range(len(oracle.tasks))), t)[1]

    def tokens(place: Place) -> Reading:
        regime, t = place
        said = single(regime, t)[0].numpy()
        record = oracle.results[f"{GROUP}/{regime}/tokens"][t][: len(said)]
        return exact(float((said != record).any(1).sum()), 0.0)

    every: list[Place] = [(regime, t) for regime in names(oracle, GROUP) for t in answered]
    yield Check(GROUP, "texts that are others", every, tokens, SLOW)
    for name in MEASURES:
        yield Check(GROUP, name, every, _check(oracle, GROUP, name, lambda place: single(*place)[1]), SLOW)
    sums: list[Place] = []
    for regime in names(oracle, SUMS):
        count = len(oracle.results[f"{SUMS}/{regime}/alpha"])
        sums += [(regime, a, t) for a in range(count) for t in answered]
    for name in MEASURES:
        if sums:
            yield Check(SUMS, name, sums, _check(oracle, SUMS, name, summed), SLOW)


def _check(
    oracle: Oracle, group: str, name: str, values_of: Callable[[Place], dict[str, float]]
) -> Callable[[Place], Reading]:
    def measure(place: Place) -> Reading:
        return exact(stored(oracle, group, name, place), values_of(place)[name])

    return measure


def measured(oracle: Oracle, regime: str, edits: dict[int, float], t: int) -> tuple[Tensor, dict[str, float]]:
    """Tokens [n, most], −1 behind the end, and each measure."""
    node, file = oracle.results[f"{GROUP}/{regime}"], oracle.files[t]
    most = node["tokens"].shape[2]
    rows = oracle.rows(f"{GROUP}/{regime}/sample_index", t)
    x, y = oracle.sample("test", t, rows)
    step = oracle.step(regime, edits)
    said = decoded(oracle, regime, step, x, most)
    pieces = file["head/pieces"][()]  # bytes, of which one may be a part of a letter
    hidden = (-1, *ends(oracle))
    spoken = [
        text(b"".join(pieces[token] for token in row if token not in hidden and token < len(pieces))).strip()
        for row in said.tolist()
    ]
    right = [text(file["test/references"][row]).split("\n") for row in rows]
    logits = oracle.logits(t, oracle.through(regime, step, x, t))
    inside = y >= 0
    values = {
        "exact_match": float(
            np.mean([max(_plain(a) == _plain(b) for b in of) for a, of in _both(spoken, right)])
        ),
        "f1": float(np.mean([max(_f1(a, b) for b in of) for a, of in _both(spoken, right)])),
        "token_accuracy": float((logits.argmax(2) == y)[inside].double().mean()),
        **dict.fromkeys(("pearson", "spearman", "no_number"), float("nan")),
    }
    metric = text(file["head"].attrs["metric"])
    if metric == "spearman":
        numbers = [_number(answer) for answer in spoken]
        references = [_number(of[0]) or 0.0 for of in right]
        mine = [number or 0.0 for number in numbers]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of constants, whose correlation is NaN
            values["pearson"] = float(pearsonr(mine, references)[0])
            values["spearman"] = float(spearmanr(mine, references)[0])
        values["no_number"] = float(sum(number is None for number in numbers))
    return said, values | {"value": values[metric]}


def ends(oracle: Oracle) -> tuple[int, ...]:
    """The tokens that end a text, as generation_config.json names them, or config.json."""
    path = oracle.inputs.model() / "generation_config.json"
    named = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    tokens = named.get("eos_token_id")
    if tokens is None or tokens == []:
        tokens = oracle.model.config.eos_token_id
    return tuple(tokens) if isinstance(tokens, list) else () if tokens is None else (tokens,)


def decoded(oracle: Oracle, regime: str, step: Parameters, x: Tensor, most: int) -> Tensor:
    ids, used, by = x[:, :, 0], x[:, :, 2], answers.module_of(oracle.model)
    given = torch.full_like(ids[:, :1], by.start(oracle.model))
    said = torch.full((len(ids), most), -1)
    ended, last_tokens = torch.zeros(len(ids), dtype=torch.bool), torch.tensor(ends(oracle))

    def last(p: Parameters, given: Tensor) -> Tensor:
        return oracle.read_states(p, by.states(oracle.model, p, ids, used, given)[:, -1])

    def linearised(given: Tensor) -> Tensor:
        both = jvp(lambda p: last(p, given), (oracle.theta0,), (step,))
        return both[0] + both[1]

    def edited() -> Callable[[Tensor], Tensor]:
        theta = {name: v + step[name] for name, v in oracle.theta0.items()}
        read = by.reader(oracle.model, theta, ids, used)
        return lambda given: oracle.read_states(theta, read(given)[:, -1])

    output = linearised if oracle.regime(regime).linear else edited()
    for k in range(most):
        z = output(given)
        if oracle.words_frozen:
            z = z @ texts.vocabulary(oracle.theta0).T
        chosen = z.detach().argmax(1)
        said[:, k] = torch.where(ended, -1, chosen)
        ended |= torch.isin(chosen, last_tokens)
        given = torch.cat([given, chosen[:, None]], 1)
        if ended.all():
            break
    return said


def _both(said: list[str], right: list[list[str]]) -> list[tuple[str, list[str]]]:
    return list(zip(said, right, strict=True))


def _number(said: str) -> float | None:
    return float(said) if re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", said, re.IGNORECASE) else None


def _plain(said: str) -> str:
    """As SQuAD's own script has it."""
    letters = "".join(letter for letter in said.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


def _f1(said: str, right: str) -> float:
    mine, theirs = _plain(said).split(), _plain(right).split()
    if not mine or not theirs:
        return float(mine == theirs)
    common = sum((Counter(mine) & Counter(theirs)).values())
    return 2 * common / (len(mine) + len(theirs))
