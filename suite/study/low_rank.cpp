// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/low_rank.hpp"

#include <algorithm>
#include <string_view>

namespace taugrid::study {
namespace {

constexpr std::string_view weight = ".weight";

bool is_end_of(const std::string& module, const std::string& end) {
  return module == end || module.ends_with("." + end);
}

bool is_matrix_of_layer(const autodiff::Parameter& parameter) {
  using enum autodiff::Kind;
  return (parameter.kind == attention_weight || parameter.kind == mlp_weight) &&
         parameter.shape.size() == 2 && parameter.name.ends_with(weight);
}

bool is_within(const autodiff::Parameter& parameter, const autodiff::Block& block) {
  return parameter.offset >= block.offset && parameter.offset < block.offset + block.count;
}

}  // namespace

std::string module_of(const autodiff::Parameter& parameter) {
  return parameter.name.substr(0, parameter.name.size() - weight.size());
}

bool LowRank::adapts(const autodiff::Parameter& parameter) const {
  if (!is_matrix_of_layer(parameter)) return false;
  const auto module = module_of(parameter);
  return modules.empty() ||
         std::any_of(modules.begin(), modules.end(), [&](const auto& end) { return is_end_of(module, end); });
}

bool LowRank::adapts(const autodiff::Block& block, const autodiff::Layout& layout) const {
  const auto& all = layout.parameters();
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& parameter) { return is_within(parameter, block) && adapts(parameter); });
}

std::string LowRank::unmatched(const autodiff::Layout& layout) const {
  const auto& all = layout.parameters();
  for (const auto& end : modules) {
    const bool is_there = std::any_of(all.begin(), all.end(), [&](const auto& parameter) {
      return is_matrix_of_layer(parameter) && is_end_of(module_of(parameter), end);
    });
    if (!is_there) return end;
  }
  return {};
}

std::int64_t LowRank::parameters(const autodiff::Layout& layout, const std::vector<bool>& trained) const {
  std::int64_t count = 0;
  for (const auto& matrix : matrices(layout, trained)) count += rank * (matrix.rows() + matrix.columns());
  return count;
}

std::vector<AdaptedMatrix> LowRank::matrices(const autodiff::Layout& layout,
                                             const std::vector<bool>& trained) const {
  std::vector<AdaptedMatrix> adapted;
  std::int64_t in_gradient = 0;
  const auto& blocks = layout.blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!trained.empty() && !trained[i]) continue;
    for (const auto& parameter : layout.parameters()) {
      if (is_within(parameter, blocks[i]) && adapts(parameter))
        adapted.push_back({parameter, in_gradient + parameter.offset - blocks[i].offset});
    }
    in_gradient += blocks[i].count;
  }
  return adapted;
}

}  // namespace taugrid::study
