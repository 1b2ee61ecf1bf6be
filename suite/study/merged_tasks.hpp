// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which tasks are merged (paper 2, section 6.4.1 and D.3): with [data] beat_majority those alone whose own
// model is right on more validation points than the most frequent class has. Units are planned for all tasks,
// since this is known once they are fine-tuned; what a task that is left out would have is NaN.
#pragma once

#include <string>
#include <vector>

#include "suite/schedule/run_folder.hpp"
#include "suite/study/study.hpp"

namespace taugrid::study {

/// The tasks that are merged of this regime, ascending: all, or those that beat the majority vote. Reads the
/// units of merged_needs(). Throws InputError where none does.
std::vector<std::size_t> merged_tasks(const Study& study, const schedule::RunFolder& folder,
                                      const std::string& regime);

/// The units that say so: none where all tasks are merged.
std::vector<std::string> merged_needs(const Study& study, const std::string& regime);

/// Numbers of the tasks `kept`, as many as `kept` along `dimension`, among those of all T tasks; `other` in
/// the places of the others.
at::Tensor among_all(const at::Tensor& values, std::int64_t dimension, const std::vector<std::size_t>& kept,
                     std::size_t tasks, double other);

}  // namespace taugrid::study
