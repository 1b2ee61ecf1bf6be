// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Accuracy of θ0 − αv on a task, the target, and on the control task, over a grid of α: a unit a task; and
// the α that is taken (papers 1 and 3): of those whose validation accuracy on the control is at least a part
// of θ0's, the one with the least on the target.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/ledger/tally.hpp"

namespace taugrid::experiments {

/// The tally of a unit target_and_control(): the edit's outputs on the points of task t and of the control,
/// numbers and bits.
Tally target_and_control_tally(const Study& study, const Edit& edit, std::size_t t);

/// Keys of the units that such a unit needs.
std::vector<std::string> target_and_control_needs(const Study& study, const Edit& edit, std::size_t t);

/// Outcomes [A] of the edit's models on the points of task t and of the control, on both splits.
store::TensorFile target_and_control(const Study& study, const schedule::RunFolder& folder,
                                     schedule::UnitContext& context, const Edit& edit, std::size_t t);

/// The α of one choice, and the subgroup that it is written to; none: the group itself.
struct ControlledRange {
  std::string subgroup;
  std::vector<double> alpha;
};

/// The rows of the curves: of each the task that is forgotten, and its target_and_control() unit.
struct ForgottenRows {
  std::vector<std::size_t> tasks;
  std::vector<std::string> keys;
};

/// A row a task of the run.
ForgottenRows each_task(const Study& study, const std::function<std::string(const std::string& task)>& key);

/// What put_target_and_control() writes; `rows` is the role of the curves' first dimension, `scale` the name
/// of the axis as a dimension scale.
std::vector<Output> forgotten_outputs(const std::string& rows, const std::string& scale);

/// Writes forgotten_outputs() of a group. Of α that leave equally much of the task the smaller is chosen, of
/// each range. Collective.
void put_target_and_control(Results& out, const Finished& done, const Study& study, const std::string& group,
                            const std::vector<double>& alpha, const std::vector<ControlledRange>& ranges,
                            double threshold, const ForgottenRows& rows);

/// Writes GROUP/cosine [rows], which these units have beside the curves. Collective.
void put_cosines(Results& out, const Finished& done, const std::string& group, const ForgottenRows& rows);

/// Reads `key`, coefficients α ≥ 0 of what is subtracted; 0, 0.1, … 3 by default (paper 3).
std::vector<double> read_wide_alpha(config::Section& section, const std::string& key,
                                    config::Meaning meaning);

/// −α, the coefficients of what is added.
std::vector<double> minus(std::vector<double> alpha);

/// The key of θ0's accuracy on the control, which the choice needs.
std::string control_at_start(const Study& study);

/// Throws InputError where the run has no control task.
void require_control(const Study& study, const std::string& section);

/// Reads `control_threshold`.
double control_threshold(config::Section& section);

}  // namespace taugrid::experiments
