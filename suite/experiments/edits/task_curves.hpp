// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Accuracy of an edited model on each task over a grid of coefficients, on validation and on test points: a
// unit a task, and of all units two curves [A, T] in results.h5.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/ledger/tally.hpp"

namespace taugrid::experiments {

/// The tally of a unit task_curve(): the edit's outputs on task t's points of both splits, numbers and bits.
Tally task_curve_tally(const Study& study, const Edit& edit, std::size_t t);

/// One task's outcomes [A] on both splits, as `of(split, done)` finds them; done(share) is called on the way.
store::TensorFile task_curve(
    schedule::UnitContext& context,
    const std::function<study::Outcome(study::Split, const std::function<void(double)>&)>& of);

struct TaskCurves {
  at::Tensor test;      ///< accuracies [A, T]
  at::Tensor own_test;  ///< [T], of each θ0 + τt
  std::int64_t chosen;  ///< the row with the largest mean normalised accuracy on validation points
};

/// What put_task_curves() writes; `scale` is the name of the axis as a dimension scale.
std::vector<Output> curve_outputs(const std::string& scale);

/// Writes curve_outputs() of a group: both curves, and of the row that is chosen absolute and normalised
/// accuracy. `key(task)` is a task_curve() unit of the regime. Collective.
TaskCurves put_task_curves(Results& out, const Finished& done, const Study& study, const std::string& group,
                           const std::string& regime, const std::vector<double>& alpha,
                           const std::function<std::string(const std::string&)>& key);

}  // namespace taugrid::experiments
