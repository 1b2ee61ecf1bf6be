// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/configuration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "suite/error.hpp"
#include "suite/merging/layers.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::merging {
namespace {

/// A model of several parts, such as text and vision, says it of each.
void set_type(nlohmann::ordered_json& config, const std::string& type) {
  for (auto& [key, value] : config.items()) {
    if ((key == "torch_dtype" || key == "dtype") && value.is_string()) value = type;
    if (value.is_object() && !key.starts_with("quantization")) set_type(value, type);
  }
}

}  // namespace

void edit_configuration(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
                        const Vocabulary* vocabulary, const std::filesystem::path& config) {
  if (recipe.dtype == "base" && !recipe.is_sliced && vocabulary == nullptr) return;
  auto json = nlohmann::ordered_json::parse(store::input_text(config, "a configuration"), nullptr, false);
  if (vocabulary != nullptr) vocabulary->configure(json);
  if (recipe.dtype != "base") set_type(json, recipe.dtype);
  if (recipe.is_sliced) {
    const auto stacks = stacks_of(Weights(recipe.base));
    const auto before = stacks.empty() ? 0 : stacks.begin()->second;
    std::int64_t layers = 0;
    for (const auto& stage : stages) layers += stage->layers();
    bool is_said = false;
    for (const auto* key : {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}) {
      if (!json.contains(key) || json[key] != before) continue;
      json[key] = layers;
      is_said = true;
    }
    if (!is_said)
      throw InputError(
          fmt::format("{}: does not say the model's {} layers (num_hidden_layers, n_layer, num_layers, "
                      "n_layers); expected one that slices can change",
                      (recipe.base / "config.json").string(), before));
    // What is said of each layer, such as its kind of attention, goes with it: every list with an entry a
    // layer. Ids of tokens and names of classes may be as many, and are of no layer.
    for (auto each : json.items()) {
      const auto& key = each.key();
      auto& entry = each.value();
      if (!entry.is_array() || std::ssize(entry) != before || key == "architectures" ||
          key.ends_with("token_id") || key.ends_with("token_ids"))
        continue;
      auto kept = nlohmann::ordered_json::array();
      for (const auto& slice : recipe.slices) {
        const auto range = slice.sources.front().layers;
        for (auto layer = range.begin; layer < range.end(); ++layer)
          kept.push_back(entry[static_cast<std::size_t>(std::min(layer, before - 1))]);
      }
      entry = kept;
    }
  }
  store::write_atomically(config, json.dump(2) + "\n");
}

}  // namespace taugrid::merging
