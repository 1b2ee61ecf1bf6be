// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What there is to say of a ConvNeXt: transformers' and open_clip's differ in names and in what is behind the
// features.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "suite/models/nets/classifier.hpp"

namespace taugrid::models {

/// What the parts of the model are called: transformers' names.
struct ConvNextNames {
  std::string patch = "embeddings.patch_embeddings", patch_norm = "embeddings.layernorm",
              group = "encoder.stages.", down = "downsampling_layer.", block = "layers.",
              depthwise = "dwconv", norm = "layernorm", fc1 = "pwconv1", fc2 = "pwconv2",
              scale = "layer_scale_parameter", after = "layernorm";
};

struct ConvNextConfig {
  Wrapping wrapping;
  ConvNextNames names;
  std::int64_t image = 224, channels = 3, patch = 4;
  std::vector<std::int64_t> depths = {3, 3, 9, 3}, widths = {96, 192, 384, 768};
  double inner_epsilon = 1e-6, epsilon = 1e-12;  ///< of all norms but the last, and of that
  double initializer_range = 0.02;
  double layer_scale = 1e-6;  ///< 0: the model has no such parameters
  enum class Projection { none, linear, mlp } projection = Projection::none;
  bool projection_bias = false;
  std::int64_t projected = 0;  ///< numbers that the projection gives
};

/// Throws InputError where `widths`, as the file calls them, are not as many as depths, or the picture is too
/// small for as many groups.
void check_groups(const Keys& keys, const ConvNextConfig& config, const std::string& widths);

std::unique_ptr<Encoder> convnext_of(ConvNextConfig config, std::string config_json);

}  // namespace taugrid::models
