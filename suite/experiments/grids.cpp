// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/grids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace taugrid::experiments {

std::vector<double> addition_grid(config::Section& section) {
  std::vector<double> papers;
  for (int k = 0; k <= 20; ++k) papers.push_back(0.05 * k);
  const auto alpha = section.alpha_grid(
      "alpha", {"Coefficients; 1 is among them, for one-shot addition", {.fallback = "0, 0.05, … 1"}}, papers,
      coefficients);
  if (std::find(alpha.begin(), alpha.end(), 1.0) == alpha.end()) {
    section.refuse("alpha", "has no 1, which one-shot addition needs");
  }
  return alpha;
}

std::vector<int> numbered(config::Section& section, const std::string& key, const config::Meaning& meaning,
                          int first, int last, bool stand_in, const std::string& are,
                          std::vector<double> usual) {
  if (usual.empty()) {
    usual.resize(static_cast<std::size_t>(std::max(0, last - first + 1)));
    std::iota(usual.begin(), usual.end(), first);
  }
  std::vector<int> chosen;
  for (const auto given : section.reals(key, meaning, usual, {-1e6, 1e6})) {
    const auto number = static_cast<int>(given);
    if (given != number || number < first || (number > last && !stand_in))
      section.refuse(key, fmt::format("has {}; {}", given, are));
    if (!chosen.empty() && number <= chosen.back()) section.refuse(key, "does not ascend");
    if (number <= last) chosen.push_back(number);
  }
  if (chosen.empty() && stand_in) return {last};
  if (chosen.empty()) section.refuse(key, "is empty; " + are);
  return chosen;
}

}  // namespace taugrid::experiments
