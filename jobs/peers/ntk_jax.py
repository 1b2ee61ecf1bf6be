# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""NTK by neural-tangents' structured derivatives: the same ViT in JAX, compiled before it is timed."""

from __future__ import annotations

import json
import os
import sys
from unittest.mock import MagicMock

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
# Asked for when the library is imported, by its bridge to Keras alone: 2 GB that are not installed.
for absent in ("tensorflow", "tf2jax", "jax.experimental.jax2tf"):
    sys.modules[absent] = MagicMock()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import neural_tangents as nt  # noqa: E402
import numpy as np  # noqa: E402
import timing  # noqa: E402
from jax.extend import source_info_util  # noqa: E402
from jax.interpreters import ad  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

# Where neural-tangents looks for them; JAX has moved them.
ad.source_info_util, ad.config = source_info_util, jax.config

NAME = "ntk_jax"
TOP = "vision_model."


def make_logits(config: dict, head: jax.Array, scale: float):
    """f(θ, x): logits [n, classes] of pixels [n, c, h, w], parameters by Hugging Face's names."""
    heads, patch, eps = config["num_attention_heads"], config["patch_size"], config["layer_norm_eps"]
    grid = config["image_size"] // patch

    def linear(p, name, x):
        y = x @ p[name + ".weight"].T
        return y + p[name + ".bias"] if name + ".bias" in p else y

    def norm(p, name, x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + eps) * p[name + ".weight"] + p[name + ".bias"]

    def attention(p, name, x):
        n, tokens, width = x.shape
        q, k, v = (linear(p, f"{name}.{part}_proj", x).reshape(n, tokens, heads, -1) for part in "qkv")
        weights = jax.nn.softmax(jnp.einsum("nthd,nshd->nhts", q, k) * (width // heads) ** -0.5)
        return linear(p, f"{name}.out_proj", jnp.einsum("nhts,nshd->nthd", weights, v).reshape(n, tokens, width))

    def mlp(p, name, x):
        h = linear(p, name + ".fc1", x)
        return linear(p, name + ".fc2", h * jax.nn.sigmoid(1.702 * h))

    def logits(p, pixels):
        n, c = pixels.shape[:2]
        patches = pixels.reshape(n, c, grid, patch, grid, patch).transpose(0, 2, 4, 1, 3, 5).reshape(n, grid**2, -1)
        weight = p[TOP + "embeddings.patch_embedding.weight"]
        x = patches @ weight.reshape(weight.shape[0], -1).T
        first = jnp.broadcast_to(p[TOP + "embeddings.class_embedding"], (n, 1, x.shape[-1]))
        x = jnp.concatenate([first, x], 1) + p[TOP + "embeddings.position_embedding.weight"]
        x = norm(p, TOP + "pre_layrnorm", x)
        for i in range(config["num_hidden_layers"]):
            layer = f"{TOP}encoder.layers.{i}."
            x = x + attention(p, layer + "self_attn", norm(p, layer + "layer_norm1", x))
            x = x + mlp(p, layer + "mlp", norm(p, layer + "layer_norm2", x))
        z = linear(p, "visual_projection", norm(p, TOP + "post_layernorm", x[:, 0]))
        return scale * (z / jnp.sqrt((z**2).sum(-1, keepdims=True))) @ head.T

    return logits


def main() -> None:
    options = timing.arguments(NAME)
    with safe_open(options.folder / "inputs.safetensors", "np") as file:
        settings = file.metadata()
    inputs = load_file(options.folder / "inputs.safetensors")
    config = json.loads((options.folder / "ntk_model" / "config.json").read_text())
    p = {k: jnp.asarray(v) for k, v in load_file(options.folder / "ntk_model" / "model.safetensors").items()}
    pixels = jnp.asarray(inputs["pixels"][: int(settings["ntk_points"])])
    f = make_logits(config, jnp.asarray(inputs["head"]), float(settings["scale"]))
    structured = nt.NtkImplementation.STRUCTURED_DERIVATIVES
    kernel = jax.jit(
        nt.empirical_ntk_fn(f, trace_axes=(), diagonal_axes=(1,), vmap_axes=0, implementation=structured)
    )
    gram = timing.repeated(NAME, options, lambda: kernel(pixels, None, p).block_until_ready())  # [n, n, classes]
    save_file({"gram": np.ascontiguousarray(np.moveaxis(gram, 2, 0))}, timing.results_of(NAME, options))


main()
