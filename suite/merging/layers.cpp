// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/layers.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace taugrid::merging {

std::vector<std::string_view> steps_of(std::string_view name) {
  std::vector<std::string_view> steps;
  for (std::size_t begin = 0; begin < name.size();) {
    const auto end = std::min(name.find('.', begin), name.size());
    steps.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return steps;
}

bool is_number(std::string_view step) {
  return !step.empty() && std::all_of(step.begin(), step.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<LayerName> layer_named_in(const std::string& name) {
  constexpr std::array<std::string_view, 6> lists = {"layers", "layer", "h", "blocks", "block", "resblocks"};
  constexpr std::size_t most_digits = 6;
  bool in_list = false;
  for (const auto step : steps_of(name)) {
    if (in_list && is_number(step) && step.size() <= most_digits) {
      const auto begin = static_cast<std::size_t>(step.data() - name.data());
      return LayerName{name.substr(0, begin), std::stoll(std::string(step)),
                       name.substr(begin + step.size())};
    }
    in_list = std::find(lists.begin(), lists.end(), step) != lists.end();
  }
  return std::nullopt;
}

std::map<std::string, std::int64_t> stacks_of(const store::TensorFolder& model) {
  std::map<std::string, std::int64_t> stacks;
  for (const auto& entry : model.tensors()) {
    const auto place = layer_named_in(entry.first);
    if (!place) continue;
    auto& count = stacks[place->stack];
    count = std::max(count, place->layer + 1);
  }
  return stacks;
}

bool is_before_layers(const std::string& name) {
  if (name.find("embed_out") != std::string::npos) return false;  // the head of GPT-NeoX
  for (const char* part : {"embed", "wte", "wpe"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace taugrid::merging
