// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/support/grids.hpp"

#include <algorithm>

namespace taugrid::experiments {

std::vector<double> addition_grid(config::Section& section) {
  std::vector<double> papers;
  for (int k = 0; k <= 20; ++k) papers.push_back(0.05 * k);
  auto alpha = config::alpha_grid(section, "alpha", papers);
  if (std::find(alpha.begin(), alpha.end(), 1.0) == alpha.end()) {
    section.refuse("alpha", "has no 1, which one-shot addition needs");
  }
  return alpha;
}

}  // namespace taugrid::experiments
