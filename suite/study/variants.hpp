// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Several fine-tunings of the same data, which differ in rate, steps and seed (paper 5, section 4.1; model
// soups, Wortsman et al., 2022): each is taken as a task of its own, so that whatever is measured of tasks
// and of pairs of tasks is measured of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "suite/config/config.hpp"

namespace taugrid::study {

struct Variant {
  std::string name, data;  ///< TASK-1, TASK-2, …; and TASK, whose data it has
  /// Instead of [finetune]'s.
  std::optional<double> learning_rate;
  std::optional<std::int64_t> steps;
  /// The seed of the order of its training points; 0: that which the task itself has in a run without
  /// variants.
  std::int64_t seed = 0;
};

/// [variants]: of each of these tasks one for every rate, number of steps and seed, the seed running fastest.
/// Empty where the file has no such section. Throws InputError.
std::vector<Variant> read_variants(config::Config& config, const std::vector<std::string>& tasks);

}  // namespace taugrid::study
