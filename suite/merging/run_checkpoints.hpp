// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Checkpoints of one training run, averaged in the place of a decay of its learning rate (Tian et al. 2025,
// "WSM", arXiv 2507.17634, Theorem 3.1):
//   Σ_j c_j θ_j = θ_0 + Σ_i w_i (θ_i − θ_{i−1}),  w_i = Σ_{j ≥ i} c_j,  j = 0 … k,  i = 1 … k,
// so that weights c_j = w_j − w_{j+1}, with w_0 = 1 and w_{k+1} = 0, leave of each increment what a rate that
// has decayed to the share w_i would have. Schedules are w_i = w(i/(k + 1)), at the places of Megatron-LM's
// tools/checkpoint/weighted_merge.py, by which a linear decay is the mean, as the paper has it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "suite/config/config.hpp"

namespace taugrid::merging {

struct WeightedCheckpoint {
  std::filesystem::path folder;
  double weight;  ///< c, which add up to 1
};

/// Reads the section [checkpoints] of a recipe: the folders checkpoint-N of its run, from the latest on.
/// `notes` gets a line that says which they are. Throws InputError where there are fewer than two, or than
/// asked for.
std::vector<WeightedCheckpoint> read_checkpoints(config::Section& section, bool describing,
                                                 std::vector<std::string>& notes);

}  // namespace taugrid::merging
