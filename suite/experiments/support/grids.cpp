// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/support/grids.hpp"

#include <algorithm>

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

}  // namespace taugrid::experiments
