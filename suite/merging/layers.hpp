// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which layer of a model a tensor is in, as its name says: "model.layers.12.mlp.up_proj.weight",
// "vit.encoder.layer.3.output.dense.bias", "transformer.h.0.ln_1.weight". Holds for every architecture that
// taugrid knows, and for those of transformers whose layers are a list.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/store/tensor_folder.hpp"

namespace taugrid::merging {

/// The steps of a name, between its dots.
std::vector<std::string_view> steps_of(std::string_view name);
/// Whether a step is a number, as the entries of a list have them.
bool is_number(std::string_view step);

struct LayerName {
  std::string stack;  ///< what stands before the layer's number: "model.layers."
  std::int64_t layer;
  std::string rest;  ///< what stands behind it: ".mlp.up_proj.weight"
};

/// The outermost layer; none where the name has no number behind layers, layer, h, blocks, block or
/// resblocks.
std::optional<LayerName> layer_named_in(const std::string& name);

/// How many layers each stack has: one more than its largest number.
std::map<std::string, std::int64_t> stacks_of(const store::TensorFolder& model);

/// Whether a tensor of no layer comes before all of them, as embeddings do; else it comes behind them.
bool is_before_layers(const std::string& name);

}  // namespace taugrid::merging
