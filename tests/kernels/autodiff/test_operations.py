# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Each operation that models are written in, alone or with a layer below it, against torch.func in float64: value,
tangent, gradient, Hessian-vector product, linearised model, per-sample gradients and NTK."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.func import grad, jacrev, jvp, vmap

N = 5  # samples
TOKENS = 3


@dataclass
class Case:
    """f of the blocks p and one sample's data, in plain PyTorch; `data` maps names to tensors. What `per_sample`
    names has a row for each sample."""

    f: Callable[[list[Tensor], dict[str, Tensor]], Tensor]
    shapes: list[tuple[int, ...]]
    data: dict[str, Tensor]
    per_sample: tuple[str, ...] = ("x",)
    flops: float = 0  # of the matrix products, multiplications and additions, for all samples
    single: bool = False  # computed in float32, which has ways of its own


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


GENERATOR = torch.Generator().manual_seed(20)
WEIGHTS = rows(N, TOKENS)
PLACES = torch.tensor([[0, 2, 2], [1, 1, 1], [4, 3, 0], [5, 0, 5], [2, 3, 4]])  # of six rows, some twice
WORDS = torch.tensor([3, 0, 4])
MASK = torch.zeros(N, TOKENS, dtype=torch.float64)
MASK[1, 2] = MASK[3, 1:] = -torch.inf
LENGTHS = (MASK == 0).sum(1)


BUCKETS = torch.tensor([[0, 1, 3], [4, 0, 1], [3, 4, 0]])  # of five rows, by query and key; one is not used


def relative(qkv: Tensor, table: Tensor, d: dict[str, Tensor]) -> Tensor:
    """Attention of two heads, unscaled, with biases by query and key."""
    q, k, v = qkv.reshape(TOKENS, 3, 2, -1).permute(1, 2, 0, 3)
    scores = q @ k.transpose(1, 2) + table[d["buckets"]].permute(2, 0, 1) + d["mask"]
    return (scores.softmax(-1) @ v).transpose(0, 1).reshape(TOKENS, -1)


def crossed(h: Tensor, query: Tensor, kv: Tensor, d: dict[str, Tensor]) -> Tensor:
    """The first token attends to all, by two heads, the others stay."""
    q = query.reshape(1, 2, -1).transpose(0, 1)
    k, v = kv.reshape(TOKENS, 2, 2, -1).permute(1, 2, 0, 3)
    read = ((q @ k.transpose(1, 2) + d["mask"]).softmax(-1) @ v).transpose(0, 1).reshape(1, -1)
    return d["weights"] @ torch.cat([read, h[1:]])


def crossed_alone(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    h = d["x"] @ p[0].T
    return crossed(h, h[:1] @ p[1].T, h @ p[2].T, d)


def three_attentions(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    h = relative(heads(d["x"] @ p[0].T + p[1], 2, d["mask"]) @ p[2].T, p[3], d)
    return crossed(h, h[:1], h @ p[4].T, d)


def rms_norm(h: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(h, h.shape[-1:], weight, 1e-3)


def twice_rms_normed(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    h = rms_norm(d["x"] @ p[0].T, p[1])
    return d["weights"] @ rms_norm(h + h @ p[0].T, p[1])


def heads(qkv: Tensor, count: int, mask: Tensor | None = None) -> Tensor:
    """Attention of one sample, qkv [tokens, 3·heads·d], by the textbook."""
    tokens = qkv.shape[0]
    q, k, v = qkv.reshape(tokens, 3, count, -1).permute(1, 2, 0, 3)
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + mask
    return (scores.softmax(-1) @ v).transpose(0, 1).reshape(tokens, -1)


CAUSAL = torch.full((TOKENS, TOKENS), -torch.inf, dtype=torch.float64).triu(1)
ANGLES = rows(TOKENS, 2)
ROTATION = {"cos": ANGLES.cos(), "sin": ANGLES.sin()}


def grouped(q: Tensor, kv: Tensor, queries: int, keys: int, mask: Tensor, cap: float = 0) -> Tensor:
    """One sample's attention, a head at a time; neighbouring heads of queries share one of keys and values."""
    d = q.shape[1] // queries
    read = []
    for head in range(queries):
        of_keys = head * keys // queries
        key = kv[:, of_keys * d : (of_keys + 1) * d]
        value = kv[:, (keys + of_keys) * d : (keys + of_keys + 1) * d]
        scores = q[:, head * d : (head + 1) * d] @ key.T * 0.6
        if cap:
            scores = cap * torch.tanh(scores / cap)
        read.append((scores + mask).softmax(-1) @ value)
    return torch.cat(read, 1)


def rotated(x: Tensor, heads: int, d: dict[str, Tensor]) -> Tensor:
    """Pairs (i, i + width/2) of the first heads as complex numbers, which e^{i·angle} multiplies."""
    width = 2 * d["cos"].shape[1]
    turn = torch.complex(d["cos"], d["sin"])
    parts = []
    for head in x[:, : heads * width].split(width, 1):
        turned = torch.complex(head[:, : width // 2], head[:, width // 2 :]) * turn
        parts += [turned.real, turned.imag]
    return torch.cat([*parts, x[:, heads * width :]], 1)


def normed_heads(x: Tensor, heads: int, weight: Tensor) -> Tensor:
    parts = [rms_norm(head, weight) for head in x[:, : heads * len(weight)].split(len(weight), 1)]
    return torch.cat([*parts, x[:, heads * len(weight) :]], 1)


def decoder(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    q = rotated(normed_heads(d["x"] @ p[0].T, 2, p[2] + 1), 2, d)
    kv = rotated(normed_heads(d["x"] @ p[1].T, 1, p[3]), 1, d)
    return d["weights"] @ grouped(q, kv, 2, 1, d["causal"])


def at_the_last_token(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    q, kv = rotated(d["x"] @ p[0].T, 2, d), rotated(d["x"] @ p[1].T, 1, d)
    return grouped(q, kv, 2, 1, d["causal"])[d["last"]]


def conv(x: Tensor, weight: Tensor, side: int, stride: int, padding: int) -> Tensor:
    return F.conv2d(x[None], weight.reshape(weight.shape[0], -1, side, side), stride=stride, padding=padding)[0]


def depthwise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Places of a window of 5 × 5 around each place, which is one of zeros beyond the edge, channel by channel."""
    windows = F.pad(x, (2, 2, 2, 2)).unfold(1, 5, 1).unfold(2, 5, 1)
    return torch.einsum("chwij,cij->chw", windows, weight.reshape(-1, 5, 5)) + bias[:, None, None]


def norm_by(h: Tensor, p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    by_channel = [t[:, None, None] for t in (d["mean"], d["variance"], p[1], p[2])]
    return (h - by_channel[0]) / (by_channel[1] + 1e-3).sqrt() * by_channel[2] + by_channel[3]


def tiled(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    """Convolutions of 3 × 3 places between 16 channels and more, of pictures whose sides are no multiple of 4."""
    h = F.gelu(conv(d["x"], p[0], 1, 1, 0))
    return mean_places(F.gelu(conv(F.gelu(conv(h, p[1], 3, 1, 1) + p[2][:, None, None]), p[3], 3, 1, 1)))


def rectified_and_normed(p: list[Tensor], d: dict[str, Tensor], stride: int) -> Tensor:
    h = norm_by(conv(F.relu(conv(d["x"], p[0], 1, 1, 0)), p[3], 3, stride, 1), p, d)
    return mean_places(F.gelu(norm_by(conv(h, p[4], 3, 1, 1), p, d)))


def thinned(h: Tensor) -> Tensor:
    """Every second row and column, and a fourth channel of zeros."""
    return torch.cat([h[:, ::2, ::2], torch.zeros_like(h[:1, ::2, ::2])])


def mean_places(h: Tensor) -> Tensor:
    return h.mean((-2, -1))


def layer_norm(h: Tensor, p: list[Tensor]) -> Tensor:
    return F.layer_norm(h, h.shape[-1:], p[1], p[2], 1e-3)


def twice_normed(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    h = layer_norm(d["x"] @ p[0].T, p)
    return d["weights"] @ layer_norm(h + h @ p[0].T, p)


def tied(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    return (d["weights"] @ F.gelu(p[0][d["places"]] @ p[1].T)) @ p[0][d["words"]].T


def tokens(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    h = torch.cat([p[1][None], d["x"] @ p[0].T]) + p[2][: TOKENS + 1]
    return heads(h @ p[3].T, 1)[0] + d["weights"] @ h


def twice(p: list[Tensor], d: dict[str, Tensor]) -> Tensor:
    return F.gelu(d["x"] @ p[0].T + p[1]) @ p[0].T + p[1]


PICTURES = rows(N, 2, 5, 5)
STATISTICS = {"mean": rows(3), "variance": rows(3).square() + 0.5}
NAMES = ("x", "weights")
OF_TOKENS = {"x": rows(N, TOKENS, 4), "weights": WEIGHTS}
FLAT = {"x": rows(N, 4)}

CASES = {
    "linear": Case(lambda p, d: d["x"] @ p[0].T + p[1], [(3, 4), (3,)], FLAT, flops=2 * N * 3 * 4),
    "linear_without_bias": Case(lambda p, d: d["x"] @ p[0].T, [(3, 4)], FLAT, flops=2 * N * 3 * 4),
    "linear_of_tokens": Case(lambda p, d: d["weights"] @ (d["x"] @ p[0].T + p[1]), [(3, 4), (3,)], OF_TOKENS, NAMES,
                             2 * N * TOKENS * 3 * 4),
    "weight_and_bias_used_twice": Case(twice, [(4, 4), (4,)], FLAT, flops=2 * 2 * N * 4 * 4),
    "lookup": Case(lambda p, d: d["weights"] @ p[0][d["places"]], [(6, 3)], {"places": PLACES, "weights": WEIGHTS},
                   ("places", "weights")),
    "words": Case(lambda p, d: d["x"] @ p[0].T @ p[1][d["words"]].T, [(3, 4), (6, 3)], {**FLAT, "words": WORDS},
                  flops=2 * N * 3 * 4 + 2 * N * 3 * 3),
    "words_with_biases": Case(
        lambda p, d: d["x"] @ p[0].T @ p[1][d["words"]].T + p[2][d["words"], 0], [(3, 4), (6, 3), (6, 1)],
        {**FLAT, "words": WORDS}, flops=2 * N * 3 * 4 + 2 * N * 3 * 3),
    "token_at": Case(
        lambda p, d: F.gelu(p[0][d["places"]])[d["place"]] @ p[0][d["words"]].T + p[1][d["words"], 0],
        [(6, 4), (6, 1)], {"places": PLACES, "place": torch.tensor([0, 2, 1, 1, 2]), "words": WORDS},
        ("places", "place"), 2 * N * 3 * 4),
    "tied": Case(tied, [(6, 4), (4, 4)], {"places": PLACES, "weights": WEIGHTS, "words": WORDS}, ("places", "weights"),
                 2 * N * TOKENS * 4 * 4 + 2 * N * 3 * 4),
    "table_as_weight": Case(lambda p, d: (d["weights"] @ p[0][d["places"]]) @ p[0].T, [(6, 3)],
                            {"places": PLACES, "weights": WEIGHTS}, ("places", "weights"), 2 * N * 6 * 3),
    "convolve": Case(lambda p, d: mean_places(F.gelu(conv(d["x"], p[0], 3, 2, 1))), [(3, 18)], {"x": PICTURES},
                     flops=2 * N * 9 * 3 * 18),
    # LibTorch's own gradient of such a filter writes beyond its memory.
    "convolve_few_channels": Case(lambda p, d: mean_places(F.gelu(conv(d["x"], p[0], 1, 2, 0))), [(8, 4)],
                                  {"x": rows(N, 4, 16, 16)}, flops=2 * N * 64 * 8 * 4),
    "convolve_with_bias": Case(
        lambda p, d: mean_places(F.gelu(
            conv(F.gelu(conv(d["x"], p[0], 2, 2, 0) + p[1][:, None, None]), p[2], 1, 1, 0) + p[3][:, None, None])),
        [(3, 8), (3,), (2, 3), (2,)], {"x": PICTURES}, flops=2 * N * 4 * (3 * 8 + 2 * 3)),
    "convolve_depthwise": Case(lambda p, d: mean_places(F.gelu(depthwise(d["x"], *p))), [(2, 25), (2,)],
                               {"x": PICTURES}, flops=2 * N * 25 * 2 * 25),
    "convolve_depthwise_used_twice": Case(
        lambda p, d: mean_places(depthwise(F.gelu(depthwise(F.gelu(conv(d["x"], p[2], 1, 1, 0)), *p[:2])), *p[:2])),
        [(3, 25), (3,), (3, 2)], {"x": PICTURES}, flops=2 * N * 25 * (2 * 3 * 25 + 3 * 2)),
    "scale": Case(lambda p, d: F.gelu(d["x"] @ p[0].T * p[1]) * p[2], [(3, 4), (3,), (3,)], FLAT,
                  flops=2 * N * 3 * 4),
    "channels": Case(
        lambda p, d: (F.gelu(d["x"].permute(1, 2, 0) @ p[0].T + p[1]) * p[2]).mean((0, 1)), [(3, 2), (3,), (3,)],
        {"x": PICTURES}, flops=2 * N * 25 * 3 * 2),
    "filter_used_twice": Case(
        lambda p, d: mean_places(F.gelu(conv(F.gelu(conv(d["x"], p[0], 3, 1, 1)), p[0], 3, 2, 0))),
        [(2, 18)], {"x": PICTURES}, flops=2 * N * (25 + 4) * 2 * 18),
    "max_pool": Case(
        lambda p, d: mean_places(F.gelu(F.max_pool2d(F.gelu(conv(d["x"], p[0], 3, 1, 1))[None], 3, 2, 1)[0])),
        [(3, 18)], {"x": PICTURES}, flops=2 * N * 25 * 3 * 18),
    "thin_out": Case(
        lambda p, d: mean_places(F.gelu(conv(thinned(F.gelu(conv(d["x"], p[0], 3, 1, 1))), p[1], 3, 1, 1))),
        [(3, 18), (2, 36)], {"x": PICTURES}, flops=2 * N * (25 * 3 * 18 + 9 * 2 * 36)),
    "batch_norm": Case(
        lambda p, d: mean_places(F.gelu(norm_by(conv(d["x"], p[0], 1, 1, 0), p, d))),
        [(3, 2), (3,), (3,)], {"x": PICTURES, **STATISTICS}, flops=2 * N * 25 * 3 * 2),
    "batch_norm_used_twice": Case(
        lambda p, d: mean_places(F.gelu(norm_by(F.gelu(norm_by(conv(d["x"], p[0], 1, 1, 0), p, d)), p, d))),
        [(3, 2), (3,), (3,)], {"x": PICTURES, **STATISTICS}, flops=2 * N * 25 * 3 * 2),
    "convolve_normed": Case(
        lambda p, d: rectified_and_normed(p, d, 2), [(3, 2), (3,), (3,), (3, 27), (3, 27)],
        {"x": PICTURES, **STATISTICS}, flops=2 * N * (25 * 3 * 2 + 2 * 9 * 3 * 27)),
    "tiled": Case(tiled, [(16, 2), (48, 144), (48,), (32, 432)], {"x": PICTURES},
                  flops=2 * N * 25 * (16 * 2 + 48 * 144 + 32 * 432), single=True),
    "tiled_and_normed": Case(
        lambda p, d: rectified_and_normed(p, d, 1), [(64, 2), (64,), (64,), (64, 576), (64, 576)],
        {"x": PICTURES, "mean": rows(64), "variance": rows(64).square() + 0.5},
        flops=2 * N * 25 * (64 * 2 + 2 * 64 * 576), single=True),
    "layer_norm": Case(lambda p, d: layer_norm(d["x"] @ p[0].T, p), [(3, 4), (3,), (3,)], FLAT, flops=2 * N * 3 * 4),
    "layer_norm_used_twice": Case(twice_normed, [(4, 4), (4,), (4,)], OF_TOKENS, NAMES, 2 * 2 * N * TOKENS * 4 * 4),
    "rms_norm": Case(lambda p, d: rms_norm(d["x"] @ p[0].T, p[1]), [(3, 4), (3,)], FLAT, flops=2 * N * 3 * 4),
    "rms_norm_used_twice": Case(twice_rms_normed, [(4, 4), (4,)], OF_TOKENS, NAMES, 2 * 2 * N * TOKENS * 4 * 4),
    "gated_gelu": Case(lambda p, d: F.gelu(d["x"] @ p[0].T, approximate="tanh") * (d["x"] @ p[1].T) * 0.7,
                       [(3, 4), (3, 4)], FLAT, flops=2 * 2 * N * 3 * 4),
    "quick_gelu": Case(lambda p, d: (h := d["x"] @ p[0].T) * torch.sigmoid(1.702 * h), [(3, 4)], FLAT,
                       flops=2 * N * 3 * 4),
    "silu": Case(lambda p, d: (h := d["x"] @ p[0].T) * torch.sigmoid(h), [(3, 4)], FLAT, flops=2 * N * 3 * 4),
    "gated_silu": Case(lambda p, d: F.silu((h := d["x"] @ p[0].T)[:3]) * h[3:], [(6, 4)], FLAT, flops=2 * N * 6 * 4),
    "gated_gelu_tanh": Case(lambda p, d: F.gelu((h := d["x"] @ p[0].T)[:3], approximate="tanh") * h[3:], [(6, 4)], FLAT,
                            flops=2 * N * 6 * 4),
    "soft_cap": Case(lambda p, d: 0.8 * torch.tanh(d["x"] @ p[0].T / 0.8), [(3, 4)], FLAT, flops=2 * N * 3 * 4),
    "centred_norm": Case(lambda p, d: rms_norm(d["x"] @ p[0].T, p[1] + 1), [(3, 4), (3,)], FLAT,
                         flops=2 * N * 3 * 4),
    "grouped_attention": Case(
        lambda p, d: d["weights"] @ grouped(d["x"] @ p[0].T, d["x"] @ p[1].T, 4, 2, d["causal"]), [(8, 4), (8, 4)],
        {**OF_TOKENS, "causal": CAUSAL}, NAMES, 2 * N * TOKENS * 16 * 4 + 2 * 2 * N * TOKENS**2 * 8),
    "capped_attention": Case(
        lambda p, d: d["weights"] @ grouped(d["x"] @ p[0].T, d["x"] @ p[1].T, 4, 2, d["causal"], 0.7),
        [(8, 4), (8, 4)], {**OF_TOKENS, "causal": CAUSAL}, NAMES,
        2 * N * TOKENS * 16 * 4 + 2 * 2 * N * TOKENS**2 * 8),
    "decoder": Case(decoder, [(8, 4), (8, 4), (4,), (4,)],
                    {**OF_TOKENS, **ROTATION, "causal": CAUSAL, "lengths": LENGTHS}, NAMES,
                    2 * N * TOKENS * 16 * 4 + 2 * 2 * N * TOKENS**2 * 8),
    "packed_decoder": Case(decoder, [(8, 4), (8, 4), (4,), (4,)],
                           {**OF_TOKENS, "weights": WEIGHTS.where(MASK == 0, 0), **ROTATION, "causal": CAUSAL,
                            "lengths": LENGTHS}, NAMES,
                           2 * N * TOKENS * 16 * 4 + 2 * 2 * N * TOKENS**2 * 8),
    "decoder_at_the_last_token": Case(
        at_the_last_token, [(8, 4), (8, 4)], {**OF_TOKENS, **ROTATION, "causal": CAUSAL, "last": LENGTHS - 1},
        ("x", "last"), 2 * N * (8 * 4 + TOKENS * 8 * 4) + 2 * 2 * N * TOKENS * 8),
    "gelu": Case(lambda p, d: F.gelu(d["x"] @ p[0].T), [(3, 4)], FLAT, flops=2 * N * 3 * 4),
    "relu": Case(lambda p, d: F.relu(d["x"] @ p[0].T), [(3, 4)], FLAT, flops=2 * N * 3 * 4),
    "attention": Case(lambda p, d: d["weights"] @ heads(d["x"] @ p[0].T + p[1], 2), [(12, 4), (12,)], OF_TOKENS, NAMES,
                      2 * N * TOKENS * 12 * 4 + 2 * 2 * N * TOKENS**2 * 4),
    "masked_attention": Case(lambda p, d: d["weights"] @ heads(d["x"] @ p[0].T + p[1], 2, d["mask"]), [(12, 4), (12,)],
                             {**OF_TOKENS, "mask": MASK}, (*NAMES, "mask"),
                             2 * N * TOKENS * 12 * 4 + 2 * 2 * N * TOKENS**2 * 4),
    "relative_attention": Case(
        lambda p, d: d["weights"] @ relative(d["x"] @ p[0].T, p[1], d), [(12, 4), (5, 2)],
        {**OF_TOKENS, "mask": MASK, "buckets": BUCKETS}, (*NAMES, "mask"),
        2 * N * TOKENS * 12 * 4 + 2 * 2 * N * TOKENS**2 * 4),
    "relative_attention_used_twice": Case(
        lambda p, d: d["weights"] @ relative(relative(d["x"] @ p[0].T, p[1], d) @ p[0].T, p[1], d), [(12, 4), (5, 2)],
        {**OF_TOKENS, "mask": MASK, "buckets": BUCKETS}, (*NAMES, "mask"),
        2 * (2 * N * TOKENS * 12 * 4 + 2 * 2 * N * TOKENS**2 * 4)),
    "cross_attention": Case(crossed_alone, [(4, 4), (4, 4), (8, 4)], {**OF_TOKENS, "mask": MASK}, (*NAMES, "mask"),
                            2 * N * (TOKENS * 4 * 4 + 4 * 4 + TOKENS * 8 * 4 + 2 * TOKENS * 4)),
    "packed_attention": Case(
        three_attentions, [(12, 4), (12,), (12, 4), (5, 2), (8, 4)],
        {**OF_TOKENS, "weights": WEIGHTS.where(MASK == 0, 0), "mask": MASK, "buckets": BUCKETS}, (*NAMES, "mask"),
        2 * N * (2 * TOKENS * 12 * 4 + TOKENS * 8 * 4 + 2 * 2 * TOKENS**2 * 4 + 2 * TOKENS * 4)),
    "add": Case(lambda p, d: d["x"] @ p[0].T + F.gelu(d["x"] @ p[1].T), [(3, 4), (3, 4)], FLAT,
                flops=2 * 2 * N * 3 * 4),
    "tokens": Case(tokens, [(4, 4), (4,), (TOKENS + 2, 4), (12, 4)],
                   {"x": rows(N, TOKENS, 4), "weights": rows(N, TOKENS + 1)}, NAMES,
                   2 * N * (TOKENS * 4 * 4 + (TOKENS + 1) * 12 * 4 + 2 * (TOKENS + 1) ** 2 * 4)),
    "positions_from_the_second": Case(
        lambda p, d: d["weights"] @ F.gelu(d["x"] @ p[0].T + p[1][1 : TOKENS + 1]), [(3, 4), (TOKENS + 2, 3)],
        OF_TOKENS, NAMES, 2 * N * TOKENS * 3 * 4),
    "normalise_rows": Case(lambda p, d: F.normalize(d["x"] @ p[0].T, dim=-1), [(3, 4)], FLAT, flops=2 * N * 3 * 4),
    "cosine_logits": Case(lambda p, d: 7.5 * F.normalize(d["x"] @ p[0].T, dim=-1) @ d["head"].T, [(3, 4)],
                          {**FLAT, "head": rows(2, 3)}, flops=2 * N * (3 * 4 + 2 * 3)),
    "affine_logits": Case(lambda p, d: d["x"] @ p[0].T @ d["head"].T + d["bias"], [(3, 4)],
                          {**FLAT, "head": rows(2, 3), "bias": rows(2)}, flops=2 * N * (3 * 4 + 2 * 3)),
}


@dataclass
class Numbers:
    p: list[Tensor]
    t: list[Tensor]
    cotangent: Tensor


def batch(case: Case, p: list[Tensor]) -> Tensor:
    """f of all samples, [n, columns]."""
    mine = {k: v for k, v in case.data.items() if k in case.per_sample}
    shared = {k: v for k, v in case.data.items() if k not in case.per_sample}
    return torch.stack([case.f(p, {**shared, **{k: v[i] for k, v in mine.items()}}) for i in range(N)])


@cache
def numbers_of(name: str) -> Numbers:
    case = CASES[name]
    # In float32 layers keep the size of what they take in: the sine of large numbers would show rounding alone.
    p = [rows(*shape) / (shape[-1] ** 0.5 if case.single and len(shape) > 1 else 1) for shape in case.shapes]
    return Numbers(p, [rows(*shape) for shape in case.shapes], rows(*batch(case, p).shape))


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    folder = tmp_path_factory.mktemp("operations")
    tensors = {}
    for name, case in CASES.items():
        numbers = numbers_of(name)
        named = {f"p{i}": v for i, v in enumerate(numbers.p)} | {f"t{i}": v for i, v in enumerate(numbers.t)}
        for key, value in (named | case.data | {"cotangent": numbers.cotangent}).items():
            single = case.single and value.is_floating_point()
            tensors[f"{name}/{key}"] = value.float() if single else value.contiguous().clone()
    numbers = numbers_of("batch_norm")
    for i in range(3):
        tensors[f"batch_statistics/p{i}"] = numbers.p[i].clone()
    tensors["batch_statistics/x"] = PICTURES.clone()
    save_file(tensors, folder / "in.safetensors")
    subprocess.run([os.environ["OPERATIONS_PROBE"], folder / "in.safetensors", folder / "out.safetensors"], check=True)
    return load_file(folder / "out.safetensors")


def flat(blocks: list[Tensor] | tuple[Tensor, ...], lead: int = 0) -> Tensor:
    return torch.cat([b.flatten(lead) for b in blocks], lead)


def close(ours: Tensor, theirs: Tensor, single: bool = False) -> bool:
    error = 5e-6 if single else 1e-11
    return ours.shape == theirs.shape and float((ours - theirs).norm()) <= error * (1 + float(theirs.norm()))


@pytest.mark.parametrize("name", CASES)
def test_value_and_tangent(name: str, probed: dict[str, Tensor]) -> None:
    case, numbers = CASES[name], numbers_of(name)
    value, tangent = jvp(lambda *p: batch(case, list(p)), tuple(numbers.p), tuple(numbers.t))
    assert float(tangent.norm()) > 0.1
    for key in ("value", "recorded"):
        assert close(probed[f"{name}/{key}"], value, case.single), key
    assert close(probed[f"{name}/tangent"], tangent, case.single)
    assert close(probed[f"{name}/linearised"], value + tangent, case.single)


@pytest.mark.parametrize("name", CASES)
def test_gradient_and_hessian_product(name: str, probed: dict[str, Tensor]) -> None:
    case, numbers = CASES[name], numbers_of(name)

    def loss(*p: Tensor) -> Tensor:
        return batch(case, list(p)).sin().sum()

    gradient = grad(loss, argnums=tuple(range(len(numbers.p))))
    g, hv = jvp(gradient, tuple(numbers.p), tuple(numbers.t))
    assert close(probed[f"{name}/gradient"], flat(g), case.single)
    assert close(probed[f"{name}/hessian_product"], flat(hv), case.single)


@pytest.mark.parametrize("name", CASES)
def test_per_sample_gradients_and_kernel(name: str, probed: dict[str, Tensor]) -> None:
    case, numbers = CASES[name], numbers_of(name)
    jacobian = flat(jacrev(lambda *p: batch(case, list(p)), argnums=tuple(range(len(numbers.p))))(*numbers.p), 2)
    of_samples = torch.einsum("nc,ncp->np", numbers.cotangent, jacobian)
    assert close(probed[f"{name}/per_sample"], of_samples, case.single)
    assert close(probed[f"{name}/squares"] - 1, of_samples.square().sum(0), case.single)
    assert close(probed[f"{name}/pulled_back"], of_samples.sum(0), case.single)
    kernels = torch.stack([jacobian[:, c] @ jacobian[:, c].T for c in range(2)])
    assert close(probed[f"{name}/gram"], kernels, case.single)
    assert close(probed[f"{name}/gram_in_little_space"], kernels[:, 1:], case.single)


@pytest.mark.parametrize("name", CASES)
def test_products_are_counted(name: str, probed: dict[str, Tensor]) -> None:
    assert float(probed[f"{name}/flops"]) == CASES[name].flops


@pytest.mark.parametrize("name", ["batch_statistics", "batch_statistics_of_ranks"])
def test_batch_norm_by_the_batch(name: str, probed: dict[str, Tensor]) -> None:
    numbers = numbers_of("batch_norm")

    def loss(w: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        h = F.conv2d(PICTURES, w[:, :, None, None])
        return mean_places(F.gelu(F.batch_norm(h, None, None, scale, shift, True, eps=1e-3))).sin().sum()

    value, g = loss(*numbers.p), grad(loss, argnums=(0, 1, 2))(*numbers.p)
    assert close(probed[f"{name}/loss"][0], value)
    assert close(probed[f"{name}/gradient"], flat(g))
    h = F.conv2d(PICTURES, numbers.p[0][:, :, None, None])
    assert close(probed[f"{name}/mean"], h.mean((0, 2, 3)))
    assert close(probed[f"{name}/variance"], vmap(lambda c: c.var())(h.transpose(0, 1).flatten(1)))
