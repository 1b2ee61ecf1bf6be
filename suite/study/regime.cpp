// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/regime.hpp"

#include <algorithm>
#include <stdexcept>

namespace taugrid::study {
namespace {

const std::vector<Regime>& regimes() {
  using enum autodiff::Kind;
  static const std::vector<Regime> all = {
      {.name = "standard"},                                       // f(x; θ)
      {.name = "linear", .linear = true},                         // f(x; θ0) + J(x)(θ − θ0)
      {.name = "posthoc", .linear = true, .source = "standard"},  // paper 1, section 3
      {.name = "attention", .groups = {attention_weight}},        // Wq, Wk, Wv, Wo (paper 4)
      {.name = "attention+bias", .groups = {attention_weight, attention_bias}},  // its ablations, table 5
      {.name = "attention+mlp", .groups = {attention_weight, mlp_weight}},
      {.name = "attention+mlp+bias", .groups = {attention_weight, attention_bias, mlp_weight, mlp_bias}},
      {.name = "lora", .groups = {attention_weight, mlp_weight}, .low_rank = true},
      {.name = "attention_posthoc", .linear = true, .source = "attention"},   // its kernel behaviour test
      {.name = "tau_jp", .linear = true, .penalty = Penalty::cyclic},         // paper 3, eq. 11
      {.name = "tau_jp_strict", .linear = true, .penalty = Penalty::strict},  // paper 3, eq. 10
      {.name = "tau_jp_incremental", .linear = true, .penalty = Penalty::earlier},  // section 5.3.1
      {.name = "tau_jp_continue", .linear = true, .penalty = Penalty::cyclic, .start = "linear"},  // 5.3.2
      {.name = "multitask", .joint = true},
      {.name = "multitask_linear", .linear = true, .joint = true},
  };
  return all;
}

}  // namespace

const Regime& regime(const std::string& name) {
  for (const auto& r : regimes()) {
    if (r.name == name) return r;
  }
  throw std::invalid_argument("no fine-tuning regime " + name);
}

std::vector<std::string> regime_names() {
  std::vector<std::string> names;
  for (const auto& r : regimes()) names.push_back(r.name);
  return names;
}

std::vector<bool> trained_blocks(const Regime& regime, const autodiff::Layout& layout, int first_stage,
                                 bool words_frozen) {
  std::vector<bool> trained;
  if (regime.groups.empty() && first_stage == 0 && !words_frozen) return trained;
  for (const auto& block : layout.blocks()) {
    const bool of_group = regime.groups.empty() || std::find(regime.groups.begin(), regime.groups.end(),
                                                             block.kind) != regime.groups.end();
    const bool of_frozen_head = words_frozen && block.kind == autodiff::Kind::word_head;
    trained.push_back(of_group && block.stage >= first_stage && !of_frozen_head);
  }
  return trained;
}

std::int64_t trained_parameters(const std::vector<bool>& trained, const autodiff::Layout& layout) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    if (trained.empty() || trained[i]) count += layout.blocks()[i].count;
  }
  return count;
}

}  // namespace taugrid::study
