# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of task vectors and of θ0 again: similarity, disentanglement, τJp, curvature, kernels, training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from taugrid_analysis.files import text
from taugrid_analysis.recompute import draws, nets, texts
from taugrid_analysis.recompute.checks import (
    FLOOR,
    ROUNDING,
    Check,
    Place,
    Reading,
    exact,
    names,
    pairs,
    places,
    relative,
    share,
    stored,
)
from taugrid_analysis.recompute.oracle import Oracle, flat
from taugrid_analysis.regimes import JOINT, VECTORS_OF, is_linear

CUT_OFF = 1e-6  # of the largest singular value, below which eigenfunctions of the NTK are left out
SLOW = 2  # eigenvalues of a Hessian, and entries of the null: a minute each on a small model


def checks(oracle: Oracle) -> Iterator[Check]:
    yield from _similarity(oracle)
    yield from _disentanglement(oracle)
    yield from _representation(oracle)
    yield from _tau_jp(oracle)
    yield from _continuation(oracle)
    yield from _smoothness(oracle)
    yield from _kernel(oracle)
    yield from _training(oracle)
    yield from _cost(oracle)
    yield from _facts(oracle)


def _check(
    oracle: Oracle, group: str, variable: str, again: Callable[[Place], Reading], most: int = 10**9
) -> Iterator[Check]:
    every = places(oracle, group, variable)
    if every:
        yield Check(group, variable, every, again, most)


def _similarity(oracle: Oracle) -> Iterator[Check]:
    group, both = "similarity", pairs(oracle)

    def norm(regime: str, t: int) -> float:
        return float(flat(oracle.tau(regime, t)).norm())

    def cosine(place: Place) -> Reading:
        regime, a, b = place
        product = float(flat(oracle.tau(regime, a)) @ flat(oracle.tau(regime, b)))
        again = product / (norm(regime, a) * norm(regime, b))
        return Reading(stored(oracle, group, "cosine", place), again, 1e-5)

    def gap(place: Place) -> Reading:
        regime, p, side = place
        alpha, t = float(oracle.results[f"{group}/{regime}"].attrs["alpha"]), both[p][side]
        index = f"{group}/{regime}/sample_index"
        _, merged = oracle.accuracy_and_loss(regime, dict.fromkeys(both[p], alpha), t, index)
        _, own = oracle.accuracy_and_loss(regime, {t: 1.0}, t, index)
        value = stored(oracle, group, "loss_gap", place)
        return Reading(value, merged - own, ROUNDING * (abs(merged) + abs(own)) + FLOOR)

    def sum_gap(place: Place) -> Reading:
        regime, t, k = place
        alpha = float(oracle.results[f"{group}/{regime}/sum_alpha"][k])
        index = f"{group}/{regime}/sample_index"
        _, merged = oracle.accuracy_and_loss(regime, dict.fromkeys(range(len(oracle.tasks)), alpha), t, index)
        _, own = oracle.accuracy_and_loss(regime, {t: 1.0}, t, index)
        value = stored(oracle, group, "sum_loss_gap", place)
        return Reading(value, merged - own, ROUNDING * (abs(merged) + abs(own)) + FLOOR)

    def cross(place: Place) -> Reading:
        regime, i, j, k = place
        alpha = float(oracle.results[f"{group}/{regime}/cross_alpha"][k])
        _, loss = oracle.accuracy_and_loss(regime, {i: alpha}, j, f"{group}/{regime}/sample_index")
        return Reading(stored(oracle, group, "cross_loss", place), loss, ROUNDING * abs(loss) + FLOOR)

    yield from _check(oracle, group, "cosine", cosine)
    yield from _check(
        oracle,
        group,
        "norm",
        lambda place: relative(stored(oracle, group, "norm", place), norm(*place), 1e-5),
    )
    yield from _check(
        oracle,
        group,
        "norm_ratio",
        lambda place: relative(
            stored(oracle, group, "norm_ratio", place),
            norm(*place) / float(flat(oracle.theta0).norm()),
            1e-5,
        ),
    )
    yield from _check(oracle, group, "loss_gap", gap)
    yield from _check(oracle, group, "sum_loss_gap", sum_gap)
    yield from _check(oracle, group, "cross_loss", cross)


def _both(oracle: Oracle, group: str, place: Place) -> tuple[int, Tensor, Tensor]:
    """The task, and the encoder's outputs alone and merged, on its points at (α1, α2)."""
    regime, p, side, i, j = place
    alpha = oracle.results[f"{group}/{regime}/alpha"][()]
    pair, coefficients = pairs(oracle)[p], (float(alpha[i]), float(alpha[j]))
    t, index = pair[side], f"{group}/{regime}/sample_index"
    alone = oracle.output(regime, ((t, coefficients[side]),), t, index, _split(oracle, group, regime))
    merged = oracle.output(
        regime, tuple(zip(pair, coefficients, strict=True)), t, index, _split(oracle, group, regime)
    )
    return t, alone, merged


def _split(oracle: Oracle, group: str, regime: str) -> str:
    """Whose points: as the group says, or the grid of predictions beside it."""
    for name in (group, "disentanglement"):
        told = oracle.results.get(f"{name}/{regime}")
        if told is not None and "split" in told.attrs and group in ("disentanglement", "representation"):
            return text(told.attrs["split"])
    return "test"


def _disentanglement(oracle: Oracle) -> Iterator[Check]:
    group = "disentanglement"

    def measure(place: Place) -> Reading:
        t, alone, merged = _both(oracle, group, place)
        differs = oracle.logits(t, alone).argmax(1) != oracle.logits(t, merged).argmax(1)
        value = stored(oracle, group, "error_by_task", place)
        return share(value, float(differs.double().mean()), len(differs))

    yield from _check(oracle, group, "error_by_task", measure)
    yield from _check(oracle, group, "error", lambda place: _sum(oracle, group, "error", place))


def _sum(oracle: Oracle, group: str, name: str, place: Place) -> Reading:
    regime, p, i, j = place
    terms = oracle.results[f"{group}/{regime}/{name}_by_task"][p, :, i, j]
    return exact(stored(oracle, group, name, place), terms.sum())


def _representation(oracle: Oracle) -> Iterator[Check]:
    """Mean KL(p ‖ q) over points of softmaxed outputs, p alone and q merged; and half of both ways."""
    group = "representation"

    def divergence(alone: Tensor, merged: Tensor) -> float:
        log_p, log_q = log_softmax(alone, 1), log_softmax(merged, 1)
        return float(kl_div(log_q, log_p, log_target=True, reduction="batchmean"))

    def one_way(place: Place) -> Reading:
        _, alone, merged = _both(oracle, group, place)
        value = stored(oracle, group, "error_by_task", place)
        return relative(value, divergence(alone, merged), 2e-3, 2e-6)

    def both_ways(place: Place) -> Reading:
        _, alone, merged = _both(oracle, group, place)
        value = stored(oracle, group, "symmetric_error_by_task", place)
        return relative(value, (divergence(alone, merged) + divergence(merged, alone)) / 2, 2e-3, 2e-6)

    yield from _check(oracle, group, "error_by_task", one_way)
    yield from _check(oracle, group, "symmetric_error_by_task", both_ways)
    for name in ("error", "symmetric_error"):
        yield from _check(
            oracle,
            group,
            name,
            lambda place, name=name: _sum(oracle, group, name, place),  # type: ignore[misc]
        )


def _product(oracle: Oracle, regime: str, a: int, x: Tensor, b: int) -> float:
    """Mean ‖J(x)τ_a‖² (paper 3, equation 9), J of task b's output."""
    return float(oracle.tangent(oracle.tau(regime, a), x, b)[1].square().sum(1).mean())


def _tau_jp(oracle: Oracle) -> Iterator[Check]:
    group = "tau_jp"

    def value(name: str, split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, a, b = place
            prefix = "" if split == "test" else "validation_"
            x, _ = oracle.points(f"{group}/{regime}/{prefix}sample_index", b, split)
            return relative(stored(oracle, group, name, place), _product(oracle, regime, a, x, b))

        return measure

    def control(name: str, split: str) -> Callable[[Place], Reading]:
        def measure(place: Place) -> Reading:
            regime, a = place
            x, _ = oracle.sample(split, len(oracle.tasks), oracle.control_rows(split))
            again = _product(oracle, regime, a, x, len(oracle.tasks))
            return relative(stored(oracle, group, name, place), again)

        return measure

    yield from _check(oracle, group, "value", value("value", "test"))
    yield from _check(oracle, group, "control", control("control", "test"))
    yield from _check(oracle, group, "validation_control", control("validation_control", "validation"))
    known = places(oracle, group, "validation_value")
    known = [one for one in known if f"{group}/{one[0]}/validation_sample_index" in oracle.results]
    if known:
        yield Check(group, "validation_value", known, value("validation_value", "validation"))


def _continuation(oracle: Oracle) -> Iterator[Check]:
    """It begins with the task vectors of the regime that it starts from, and ends with its own."""
    group = "continuation"

    def owner(regime: str, step: int) -> str:
        start = oracle.results[f"{group}/{regime}"].attrs.get("start", "linear")
        return regime if step else (start.decode() if isinstance(start, bytes) else str(start))

    def ends(variable: str) -> list[Place]:
        found = []
        for place in places(oracle, group, variable):
            last = len(oracle.results[f"{group}/{place[0]}/step"]) - 1
            if place[1] in (0, last):
                found.append(place)
        return found

    def product(place: Place) -> Reading:
        regime, step, a, b = place
        x, _ = oracle.points(f"{group}/{regime}/sample_index", b)
        again = _product(oracle, owner(regime, step), a, x, b)
        return relative(stored(oracle, group, "tau_jp", place), again)

    def accuracy(place: Place) -> Reading:
        regime, step, t = place
        index = f"{group}/{regime}/sample_index"
        again, _ = oracle.accuracy_and_loss(owner(regime, step), {t: 1.0}, t, index)
        count = len(oracle.rows(index, t))
        return share(stored(oracle, group, "accuracy", place), again, count)

    for variable, measure in (("tau_jp", product), ("accuracy", accuracy)):
        found = ends(variable)
        if found:
            yield Check(group, variable, found, measure)


def _smoothness(oracle: Oracle) -> Iterator[Check]:
    group = "smoothness"

    def measure(place: Place) -> Reading:
        """An eigenvalue lies within ‖Hv − λv‖ of λ: the residual bounds the error, rounding aside."""
        part = stored(oracle, group, "residual", place) + 2e-5
        return relative(
            stored(oracle, group, "lambda_max", place), abs(oracle.largest_eigenvalue(*place)), part
        )

    yield from _check(oracle, group, "lambda_max", measure, SLOW)


def _kernel(oracle: Oracle) -> Iterator[Check]:
    group = "ntk"

    def start(name: str) -> dict[str, Tensor]:
        init = oracle.inputs.config.get("model", {}).get("init", "pretrained")
        return oracle.random_theta() if name == "random" and init != "random" else oracle.theta0

    def product(value: float, name: str, t: int, c: int, places: list[tuple[int, int]]) -> Reading:
        """∇f_c(x)·∇f_c(x') at θ0, of two places (task, row of its training split)."""
        if c >= oracle.heads[t].classes:
            return exact(value, float("nan"))
        points = [oracle.sample("train", task, [row])[0] for task, row in places]
        first, second = (oracle.gradient_of_logit(start(name), t, c, x) for x in points)
        return Reading(value, float(first @ second), 1e-4 * float(first.norm() * second.norm()))

    def entry(place: Place) -> Reading:
        name, t, c, i, s, j = place
        index = oracle.results[f"{group}/{name}/sample_index"]
        ends = [(t, int(index[t, i])), (s, int(index[s, j]))]
        return product(stored(oracle, group, "gram", place), name, t, c, ends)

    def null_entry(place: Place) -> Reading:
        name, t, c, i, d, j = place
        node = oracle.results[f"{group}/{name}"]
        ends = [(t, int(node["sample_index"][t, i])), (t, int(node["null_sample_index"][t, d, j]))]
        return product(stored(oracle, group, "null_gram", place), name, t, c, ends)

    def both(place: Place) -> np.ndarray:
        name, t, s, c = place[:4]
        gram = oracle.results[f"{group}/{name}/gram"]
        return np.concatenate([gram[t, c, :, t], gram[t, c, :, s]], axis=1).astype(np.float64)

    def with_more_of_itself(place: Place) -> np.ndarray:
        name, t, c, d = place[:4]
        node = oracle.results[f"{group}/{name}"]
        blocks = [node["gram"][t, c, :, t], node["null_gram"][t, c, :, d]]
        return np.concatenate(blocks, axis=1).astype(np.float64)

    def kept(name: str, sigma: np.ndarray) -> np.ndarray:
        cut = float(oracle.results[f"{group}/{name}"].attrs.get("cut_off", CUT_OFF))
        return sigma > cut * sigma[0]

    def energy_of(value: float, name: str, matrix: np.ndarray, point: int) -> Reading:
        """Σ φ² at a point, over the right singular vectors of the matrix that the cut-off keeps."""
        if not np.isfinite(matrix).all():
            return exact(value, float("nan"))
        _, sigma, right = np.linalg.svd(matrix, full_matrices=False)
        return Reading(value, float((right[kept(name, sigma)] ** 2).sum(axis=0)[point]), 1e-6)

    def energy(place: Place) -> Reading:
        value = stored(oracle, group, "local_energy", place)
        if place[1] == place[2]:
            return exact(value, float("nan"))
        return energy_of(value, place[0], both(place), place[4])

    def null_energy(place: Place) -> Reading:
        value = stored(oracle, group, "null_energy", place)
        return energy_of(value, place[0], with_more_of_itself(place), place[4])

    def rank(place: Place) -> Reading:
        """0 where nothing was measured."""
        matrix, value = both(place), stored(oracle, group, "rank", place)
        if place[1] == place[2] or not np.isfinite(matrix).all():
            return exact(value, 0.0)
        return exact(value, float(kept(place[0], np.linalg.svd(matrix, compute_uv=False)).sum()))

    def null_row(place: Place) -> Reading:
        """The training points after the first sample, in the task's drawn order: no draw shares one."""
        name, t, d, i = place
        node = oracle.results[f"{group}/{name}"]
        draws_, points = node["null_sample_index"].shape[1:]
        count = oracle.count("train", t)
        rows = draws.sample(oracle.inputs.seed(), "train", oracle.sources[t], count, (1 + draws_) * points)
        return exact(stored(oracle, group, "null_sample_index", place), rows[(1 + d) * points + i])

    def eigenvalue(place: Place) -> Reading:
        name, t, c, k = place
        own = oracle.results[f"{group}/{name}/gram"][t, c, :, t].astype(np.float64)
        value = stored(oracle, group, "eigenvalues", place)
        if not np.isfinite(own).all():
            return exact(value, float("nan"))
        again = np.linalg.eigvalsh(own)[::-1][k]
        return Reading(value, float(again), 1e-7 * float(np.abs(own).max()) * len(own))

    def null(place: Place) -> Reading:
        """The share follows from the energies of its own draw."""
        name, t, c, d = place
        parts = oracle.results[f"{group}/{name}/null_energy"][t, c, d].astype(np.float64)
        half = len(parts) // 2
        again = parts[:half].sum() / parts.sum() if np.isfinite(parts).all() else float("nan")
        return exact(stored(oracle, group, "null_share", place), again)

    yield from _check(oracle, group, "gram", entry)
    yield from _check(oracle, group, "local_energy", energy)
    yield from _check(oracle, group, "eigenvalues", eigenvalue)
    yield from _check(oracle, group, "rank", rank)
    yield from _check(oracle, group, "null_gram", null_entry)
    if places(oracle, group, "null_gram"):
        yield from _check(oracle, group, "null_energy", null_energy)
        yield from _check(oracle, group, "null_sample_index", null_row)
    yield from _check(oracle, group, "null_share", null)


def _training(oracle: Oracle) -> Iterator[Check]:
    """The first step's loss and penalty, at the model that training starts from, on the first batch."""
    group = "training"
    regimes = [name for name in names(oracle, group) if name not in JOINT and name not in VECTORS_OF]

    def first(place: Place) -> Reading:
        regime, t, _ = place
        least = setting(oracle, regime, "random_crop", 1.0)
        x, y = oracle.batch(t, 0, int(setting(oracle, regime, "batch")), least)
        edits = {t: 1.0} if regime == "tau_jp_continue" else {}
        start = "linear" if edits else regime
        if oracle.stored_statistics and not is_linear(regime):
            z = nets.by_the_batch(oracle.model, oracle.stored_statistics | oracle.theta0, x)
            z = oracle.read(oracle.theta0, z, t, begin=oracle.model.last)
        else:
            z = oracle.through(start, oracle.step(start, edits), x, t)
        again = float(oracle.loss(t, oracle.logits(t, z), y))
        return relative(stored(oracle, group, "loss", place), again, 1e-3)

    found = [place for place in places(oracle, group, "loss", regimes) if place[2] == 0]
    if found:
        yield Check(group, "loss of the first step", found, first)
    zero = [name for name in regimes if name != "tau_jp_continue"]
    found = [place for place in places(oracle, group, "penalty", zero) if place[2] == 0]
    if found:
        yield Check(
            group,
            "penalty of the first step",
            found,
            lambda place: exact(stored(oracle, group, "penalty", place), 0.0),
        )


def setting(oracle: Oracle, regime: str, key: str, otherwise: float = float("nan")) -> float:
    """Of [finetune.REGIME], else of [finetune], else as programs were that did not know the key."""
    section = oracle.inputs.config.get("finetune", {})
    return float(section.get(regime, {}).get(key, section.get(key, otherwise)))


# Names of weights: CLIP's, BERT's, ViT's, T5's, whose biases of attention are by the distance of tokens.
ATTENTION = r"\bself_attn\.|\battention\.(self|attention|output\.dense)\.|Attention\.[qkvo]\."
MLP = r"\bmlp\.|\d\.(intermediate|output)\.dense\.|\bDenseReluDense\."
RELATIVE = r"\brelative_attention_bias\."


def _cost(oracle: Oracle) -> Iterator[Check]:
    """What follows from the model; seconds, flops and peaks are of the program and its machine."""
    group = "cost"
    sizes = {name: p.numel() for name, p in oracle.theta0.items()}
    every = sum(sizes.values())
    if oracle.of_texts:  # whose lower stages, and whose head, may be frozen
        first = int(oracle.inputs.config.get("finetune", {}).get("first_stage", 0))
        config = oracle.model.config
        frozen = {name for name in sizes if oracle.words_frozen and texts.is_head(name)}
        sizes = {k: n for k, n in sizes.items() if texts.stage(k, config) >= first and k not in frozen}

    if oracle.is_net and not any(head.kind == "words" for head in oracle.heads):
        own = oracle.model.classifier_name  # which no task reads, and so stays as it is
        read = {name: n for name, n in sizes.items() if not (own and name.startswith(f"{own}."))}
    else:
        read = sizes

    def trained(regime: str) -> int:
        if not regime.startswith("attention"):
            return sum(read.values())
        wanted = f"{ATTENTION}|{MLP}" if "+mlp" in regime else ATTENTION
        if regime.endswith("+bias"):
            wanted = f"{wanted}|{RELATIVE}"
        kinds = (".weight", ".bias") if regime.endswith("+bias") else (".weight",)
        return sum(n for name, n in sizes.items() if re.search(wanted, name) and name.endswith(kinds))

    expected: dict[str, Callable[[str], int]] = {
        "parameters": lambda regime: every,
        "trainable_parameters": trained,
        "optimiser_memory": lambda regime: 8 * trained(regime),
    }
    for name, again in expected.items():
        yield from _check(
            oracle,
            group,
            name,
            lambda place, name=name, again=again: exact(  # type: ignore[misc]
                stored(oracle, group, name, place), again(place[0])
            ),
        )


def _facts(oracle: Oracle) -> Iterator[Check]:
    """Classes, and the rows of every sample, which follow from the run's seed."""

    def classes(place: Place) -> Reading:
        t = place[0]
        return exact(float(oracle.results["tasks/classes"][t]), float(oracle.heads[t].classes))

    yield Check("tasks", "classes", [(t,) for t in range(len(oracle.tasks))], classes)
    if "tasks/space" in oracle.results:
        told_of = [text(one) for one in oracle.results["tasks/space"][()]]
        yield Check(
            "tasks",
            "space is another than the readout's",
            [(t,) for t in range(len(oracle.tasks))],
            lambda place: exact(float(told_of[place[0]] != oracle.space(place[0])), 0.0),
        )
    count = sum(p.numel() for p in oracle.theta0.values())
    yield Check(
        "model",
        "parameters",
        [()],
        lambda place: exact(float(oracle.results["model"].attrs["parameters"]), count),
    )
    told_of_theta0 = text(oracle.results["model"].attrs["fingerprint"])
    yield Check(
        "model",
        "θ0 is another than the fingerprint's",
        [()],
        lambda place: exact(float(oracle.fingerprint() != told_of_theta0), 0.0),
    )
    told: list[Place] = []
    oracle.results.visititems(
        lambda name, node: (
            told.extend([(name, t) for t in range(len(oracle.tasks))])
            if name.endswith("/sample_index") and getattr(node, "ndim", 0) == 2
            else None
        )
    )

    def rows(place: Place) -> Reading:
        """The number of rows that are not those drawn for this split and task."""
        name, t = place
        found = oracle.rows(name, t)
        split = (
            "train"
            if name.split("/")[0] in ("smoothness", "ntk", "barrier")
            else _split(oracle, *name.split("/")[:2])
        )
        count = oracle.count(split, t)
        drawn = draws.sample(oracle.inputs.seed(), split, oracle.sources[t], count, len(found))
        return exact(float(sum(a != b for a, b in zip(found, drawn, strict=True))), 0.0)

    if told:
        yield Check("samples", "rows that were not drawn", told, rows)
