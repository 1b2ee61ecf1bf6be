// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Sets of tasks whose models are edited together, drawn by the run's seed where there are many.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "suite/study/study.hpp"

namespace taugrid::study {

using TaskSet = std::vector<std::size_t>;  ///< ascending

/// All sets of `size` tasks of the run, or, where these are more, `most` of them, each as likely as any
/// other, drawn by the run's seed for this purpose; in lexicographic order.
std::vector<TaskSet> task_sets(const Study& study, const std::string& purpose, std::size_t size,
                               std::int64_t most);

/// The tasks' names as one: "a+b+c".
std::string joined_names(const Study& study, const std::vector<std::size_t>& tasks);

bool holds(const TaskSet& set, std::size_t t);

/// uint8 [S, T]: 1 where the task is of the set.
at::Tensor memberships(const std::vector<TaskSet>& sets, std::size_t tasks);

}  // namespace taugrid::study
