# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""open_clip's image tower under Hugging Face's names, from named tensors or from a linearised model's numbered ones."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from checkpoints.pickles import Contents
from errors import InputError

# These are open_clip's model configurations: widths of ViT-B and the like, and attention heads by width.
WIDTHS = {"B": 768, "L": 1024, "H": 1280, "g": 1408, "bigG": 1664}
HEADS_OF_WIDTH = {768: 12, 1024: 16, 1280: 16, 1408: 16, 1664: 16}
HEADS, ACTIVATION, EPSILON = "num_attention_heads", "hidden_act", "layer_norm_eps"  # keys of config.json
OPTIONS = {HEADS: "--attention-heads", ACTIVATION: "--activation"}
ASSUMED = "assumed"
BLOCK = {  # of one residual block; in_proj is cut into three
    "ln_1": "layer_norm1",
    "attn.out_proj": "self_attn.out_proj",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}


@dataclass
class Model:
    """One image tower: config.json's table, and tensors under Hugging Face's names. `teller` says, for what no
    tensor's shape tells, who tells it."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    teller: dict[str, str] = field(default_factory=dict)

    def distance(self, other: "Model") -> float:
        return math.sqrt(sum(float((self.tensors[n].double() - other.tensors[n]).square().sum()) for n in self.tensors))

    def norm(self) -> float:
        return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in self.tensors.values()))


class Hints:
    """What no tensor's shape tells, by the best teller: options, a pickled module, the name in a linear file. What one
    file tells holds for later ones that do not."""

    def __init__(self, heads: int | None = None, activation: str | None = None) -> None:
        given = {HEADS: heads, ACTIVATION: activation}
        self.given = {key: (value, OPTIONS[key]) for key, value in given.items() if value is not None}
        self.module: dict[str, tuple[Any, str]] = {}
        self.name = ""

    def learn(self, contents: Contents) -> "Hints":
        for path, held in contents.objects.items():
            if path.endswith("visual.transformer.resblocks.0.attn") and isinstance(held.state.get("num_heads"), int):
                self.module[HEADS] = held.state["num_heads"], "read"
            if path.endswith("visual.transformer.resblocks.0.mlp.gelu"):
                self.module[ACTIVATION] = "quick_gelu" if held.origin.endswith("QuickGELU") else "gelu", "read"
            epsilon = held.state.get("eps")
            if path.endswith("visual.ln_pre") and isinstance(epsilon, float) and 0 < epsilon < 1:
                self.module[EPSILON] = epsilon, "read"
        self.name = contents.words.get("model_name", self.name)
        return self

    def settings(self, width: int) -> dict[str, tuple[Any, str]]:
        """Value and teller of each key, for a model of `width`."""
        assumed = {
            HEADS: (HEADS_OF_WIDTH.get(width), ASSUMED),
            ACTIVATION: ("quick_gelu", ASSUMED),  # OpenAI's weights, which the papers start from, use it
            EPSILON: (1e-5, ASSUMED),
        }
        return assumed | of_name(self.name, width) | self.module | self.given


def of_name(name: str, width: int) -> dict[str, tuple[Any, str]]:
    """What "ViT-B-32" tells, the name that the papers' code gave to open_clip; nothing where the width is another's.

    Their code adds __pretrained__WEIGHTS or __init__ (random) where the start is not OpenAI's. OpenAI's weights, and
    configurations that end in -quickgelu, use quick_gelu, all others gelu.
    """
    architecture, _, weights = name.replace("/", "-").partition("__")
    family = re.fullmatch(r"ViT-([A-Za-z]+)-\d[\w-]*", architecture + weights)
    if family is None or WIDTHS.get(family[1]) != width:
        return {}
    quick = weights in ("", "pretrained__openai") or architecture.endswith("-quickgelu")
    by = f"by the name {name}"
    return {HEADS: (HEADS_OF_WIDTH[width], by), ACTIVATION: ("quick_gelu" if quick else "gelu", by)}


def convert(tensors: dict[str, Tensor], where: str, hints: Hints) -> Model:
    """open_clip's visual tower, wherever it stands among `tensors`, under Hugging Face's names, in float32."""
    prefix = next((n.removesuffix("conv1.weight") for n in tensors if n.endswith("visual.conv1.weight")), None)
    if prefix is None:
        raise InputError(f"{where}: no tensor visual.conv1.weight; expected an encoder with open_clip's ViT")
    left = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    out: dict[str, Tensor] = {}

    def take(name: str, *shape: int) -> Tensor:
        tensor = left.pop(name, None)
        if tensor is None:
            raise InputError(f"{where}: no tensor {prefix}{name}; expected all of open_clip's ViT")
        wanted = [length if size < 0 else size for length, size in zip(tensor.shape, shape, strict=False)]
        if list(tensor.shape) != wanted or len(tensor.shape) != len(shape):
            sizes = ["any" if size < 0 else size for size in shape]
            raise InputError(f"{where}: {prefix}{name} has shape {list(tensor.shape)}; expected {sizes}")
        if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
            raise InputError(f"{where}: {prefix}{name} ({tensor.dtype}) is not all finite floats; expected them")
        return tensor.detach().to(torch.float32, copy=True)  # views of one storage cannot be saved

    def pair(name: str, to: str, rows: int, columns: int | None = None) -> None:
        out[f"{to}.weight"] = take(f"{name}.weight", *((rows,) if columns is None else (rows, columns)))
        out[f"{to}.bias"] = take(f"{name}.bias", rows)

    patch = take("conv1.weight", -1, -1, -1, -1)
    width, channels, side = patch.shape[:3]
    position = take("positional_embedding", -1, width)
    grid = math.isqrt(max(0, len(position) - 1))
    if not grid or grid * grid != len(position) - 1 or patch.shape[3] != side:
        raise InputError(
            f"{where}: {len(position)} positions of patches {list(patch.shape[2:])}; expected a square of squares and 1"
        )
    top = "vision_model."
    out[f"{top}embeddings.class_embedding"] = take("class_embedding", width)
    out[f"{top}embeddings.patch_embedding.weight"] = patch
    out[f"{top}embeddings.position_embedding.weight"] = position
    pair("ln_pre", f"{top}pre_layrnorm", width)  # Hugging Face's spelling
    pair("ln_post", f"{top}post_layernorm", width)
    out["visual_projection.weight"] = take("proj", width, -1).T.contiguous()
    layers, mlp = 0, -1
    while any(name.startswith(f"transformer.resblocks.{layers}.") for name in left):
        here, to = f"transformer.resblocks.{layers}.", f"{top}encoder.layers.{layers}."
        for kind, shape in (("weight", (3 * width, width)), ("bias", (3 * width,))):
            thirds = take(f"{here}attn.in_proj_{kind}", *shape).chunk(3)
            for third, letter in zip(thirds, "qkv", strict=True):
                out[f"{to}self_attn.{letter}_proj.{kind}"] = third.clone()
        if layers == 0:
            mlp = left[f"{here}mlp.c_fc.bias"].numel() if f"{here}mlp.c_fc.bias" in left else -1
        for name, new in BLOCK.items():
            rows, columns = {"mlp.c_fc": (mlp, width), "mlp.c_proj": (width, mlp)}.get(name, (width, width))
            pair(here + name, to + new, rows, None if name.startswith("ln") else columns)
        layers += 1
    if left or not layers:
        odd = next(iter(left), "transformer.resblocks.0")
        raise InputError(f"{where}: {prefix}{odd} is odd or missing; expected the parts of CLIP's ViT, and no other")
    settings = hints.settings(width)
    heads = settings[HEADS][0]
    if not isinstance(heads, int) or heads < 1 or width % heads:
        raise InputError(
            f"{where}: width {width}, attention heads {heads or 'unknown'}; expected --attention-heads N, "
            "a divisor of the width"
        )
    config = {
        "architectures": ["CLIPVisionModelWithProjection"],
        "attention_dropout": 0.0,
        "dtype": "float32",
        ACTIVATION: settings[ACTIVATION][0],
        "hidden_size": width,
        "image_size": grid * side,
        "initializer_factor": 1.0,
        "initializer_range": 0.02,
        "intermediate_size": mlp,
        EPSILON: settings[EPSILON][0],
        "model_type": "clip_vision_model",
        HEADS: heads,
        "num_channels": channels,
        "num_hidden_layers": layers,
        "patch_size": side,
        "projection_dim": len(out["visual_projection.weight"]),
    }
    return Model(config, out, {key: by for key, (_, by) in settings.items()})


# Linearised models: parameters by number


def known_order(count: int) -> list[str]:
    """Names of an ImageEncoder's parameters() with open_clip 2.0 to 2.10: visual alone, or with what the papers' code
    leaves of the text tower (all but its blocks)."""
    text = 6 if count % 12 == 2 else 0
    names = ["model.positional_embedding", "model.text_projection", "model.logit_scale"][:text]
    names += [f"model.visual.{name}" for name in ("class_embedding", "positional_embedding", "proj", "conv1.weight")]
    pairs = ["ln_pre"]
    for number in range((count - 8 - text) // 12):
        block = f"transformer.resblocks.{number}."
        pairs += [block + "ln_1", block + "attn.in_proj", block + "attn.out_proj", block + "ln_2"]
        pairs += [block + "mlp.c_fc", block + "mlp.c_proj"]
    for name in [*pairs, "ln_post"]:
        joint = "_" if name.endswith("in_proj") else "."
        names += [f"model.visual.{name}{joint}weight", f"model.visual.{name}{joint}bias"]
    return names + ["model.token_embedding.weight", "model.ln_final.weight", "model.ln_final.bias"][:text]


def linearised(contents: Contents, where: str, hints: Hints, orders: Sequence[list[str]]) -> tuple[Model, Model]:
    """(θ*, θ0) of a linearised encoder: `params` are the trained parameters, `params0` those that it is expanded at."""

    def numbered(kind: str) -> list[Tensor]:
        start = f"model.{kind}."
        numbered = {name.removeprefix(start): t for name, t in contents.tensors.items() if name.startswith(start)}
        if not numbered or set(numbered) != {str(number) for number in range(len(numbered))}:
            raise InputError(f"{where}: model.{kind}.N has {len(numbered)} tensors; expected N from 0 without a gap")
        return [numbered[str(number)] for number in range(len(numbered))]

    trained, initial = numbered("params"), numbered("params0")
    refused = InputError(f"{where}: {len(trained)} parameters; expected the order of an open_clip ViT's parameters()")
    for names in [*orders, known_order(len(trained))]:
        if len(names) != len(trained) or len(trained) != len(initial):
            continue
        try:
            return (
                convert(dict(zip(names, trained, strict=True)), f"{where}: params", hints),
                convert(dict(zip(names, initial, strict=True)), f"{where}: params0", hints),
            )
        except InputError as error:
            refused = error
    raise refused


def is_linearised(contents: Contents) -> bool:
    return "model.params.0" in contents.tensors
