// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/base_layers.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "suite/merging/layers.hpp"
#include "suite/store/input_json.hpp"

namespace taugrid::merging {
namespace {

using Json = nlohmann::json;

/// Calls see(value) with what any object of the configuration says of the key.
template <class See>
void each_said(const Json& json, const std::string& key, const See& see) {
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items()) {
    if (name == key) see(value);
    each_said(value, key, see);
  }
}

}  // namespace

BaseLayers::BaseLayers(const std::filesystem::path& base, bool stores_head) {
  const auto json = store::input_json(base / "config.json", "the configuration of the base");
  each_said(json, "model_type", [&](const Json& type) {
    for (const auto* known : {"gpt2", "openai-gpt", "imagegpt", "decision_transformer"})
      has_conv1d = has_conv1d || type == known;
    for (const auto* known : {"gpt_neox", "mixtral", "vit"}) are_renamed = are_renamed || type == known;
  });
  bool ties = false, unsaid = true, has_head = !json.contains("architectures");
  each_said(json, "tie_word_embeddings", [&](const Json& value) {
    unsaid = false;
    ties = ties || value == true;
  });
  ties = ties || (unsaid && !stores_head);
  each_said(json, "architectures", [&](const Json& named) {
    const auto text = named.dump(-1, ' ', true, Json::error_handler_t::replace);
    for (const auto* part : {"LM", "ForConditionalGeneration", "ForPreTraining"})
      has_head = has_head || text.find(part) != std::string::npos;
  });
  if (!ties || !has_head) return;
  each_said(json, "vocab_size", [&](const Json& size) {
    if (size.is_number_integer()) tied.insert(size.get<std::int64_t>());
  });
}

bool BaseLayers::is_conv1d(const std::string& name) const {
  constexpr std::array modules = {"c_attn.weight", "c_proj.weight", "c_fc.weight", "q_attn.weight"};
  return has_conv1d && std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
           return name == module || name.ends_with("." + module);
         });
}

bool BaseLayers::is_tied(const std::string& name, const std::vector<std::int64_t>& shape) const {
  return shape.size() == 2 && tied.contains(shape[0]) && !layer_named_in(name);
}

}  // namespace taugrid::merging
