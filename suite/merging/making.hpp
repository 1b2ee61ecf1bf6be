// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How a merge is carried out, and what it takes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/merging/team.hpp"

namespace taugrid::merging {

/// What a rank reads, writes and holds at once in bytes, and computes beside what sums take.
struct Load {
  double read = 0, written = 0, memory = 0, flops = 0;
};

struct Making {
  std::string made_by;          ///< the first line of merge.toml, and what computed: another starts anew
  Team team = {};               ///< that keeps apart
  std::function<void()> go_on;  ///< called all the while; may throw Interrupted
  std::function<void()> look;   ///< called at the end, while the inputs are still mapped
  std::function<void(double share)> see;  ///< how far this rank is, from 0 to 1
  /// Called by the first rank before all else, with what each is to do; or none.
  std::function<void(const std::vector<Load>&)> plan;
};

}  // namespace taugrid::merging
