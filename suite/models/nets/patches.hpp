// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What models of pictures begin with, and what transformers over their patches have alike.
#pragma once

#include <ATen/ATen.h>

#include <stdexcept>
#include <string>

#include "suite/models/encoder.hpp"
#include "suite/models/registry.hpp"

namespace taugrid::models {

/// The batch's pictures. Throws std::invalid_argument where they are not of the size that the model takes.
inline const at::Tensor& pictures_of(const Given& x, const Takes& takes) {
  const auto& pixels = x.batch.inputs;
  if (pixels.dim() != 4 || pixels.size(1) != takes.channels || pixels.size(2) != takes.image_size ||
      pixels.size(3) != takes.image_size) {
    const auto side = std::to_string(takes.image_size);
    throw std::invalid_argument("pixels: expected [n, " + std::to_string(takes.channels) + ", " + side +
                                ", " + side + "]");
  }
  return pixels;
}

/// [n, c, h, w] → [n, patches, c·p·p]: a convolution of p×p with stride p is one matrix product of these.
inline at::Tensor patches_of(const Given& x, const Takes& takes, std::int64_t p) {
  const auto& pixels = pictures_of(x, takes);
  const auto n = pixels.size(0), c = takes.channels, g = takes.image_size / p;
  return pixels.view({n, c, g, p, g, p}).permute({0, 2, 4, 1, 3, 5}).reshape({n, g * g, c * p * p});
}

/// The shape of a transformer over a picture's patches, by the words of Hugging Face's config.json.
struct PatchTransformer {
  std::int64_t hidden = 768, mlp = 3072, layers = 12, heads = 12, channels = 3, image = 224, patch;
  double epsilon, initializer_range = 0.02;
  autodiff::Activation activation;

  std::int64_t tokens() const { return (image / patch) * (image / patch) + 1; }  ///< with the class token
};

/// What the file says of it; the rest stays. Throws InputError.
inline void read_shape(const Keys& keys, PatchTransformer& shape) {
  using autodiff::Activation;
  shape.hidden = keys.integer("hidden_size", shape.hidden);
  shape.mlp = keys.integer("intermediate_size", shape.mlp);
  shape.layers = keys.integer("num_hidden_layers", shape.layers, 10'000);
  shape.heads = keys.integer("num_attention_heads", shape.heads);
  shape.channels = keys.integer("num_channels", shape.channels);
  shape.image = keys.integer("image_size", shape.image);
  shape.patch = keys.integer("patch_size", shape.patch);
  shape.epsilon = keys.real("layer_norm_eps", shape.epsilon);
  shape.initializer_range = keys.real("initializer_range", shape.initializer_range);
  const bool plain = shape.activation == Activation::gelu;
  const std::string usual = plain ? "gelu" : "quick_gelu", other = plain ? "quick_gelu" : "gelu";
  const auto activation = keys.word("hidden_act", usual);
  if (activation != usual && activation != other)
    keys.refuse("hidden_act is '" + activation + "'; expected " + usual + " or " + other);
  shape.activation = activation == "gelu" ? Activation::gelu : Activation::quick_gelu;
  if (shape.hidden % shape.heads != 0) keys.refuse("hidden_size is not a multiple of num_attention_heads");
  if (shape.image % shape.patch != 0) keys.refuse("image_size is not a multiple of patch_size");
}

}  // namespace taugrid::models
