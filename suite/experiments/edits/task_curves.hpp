// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Accuracy of an edited model on each task over a grid of coefficients, on validation and on test points: a
// unit a task, and of all units two curves [A, T] in results.h5.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/experiments/experiment.hpp"
#include "suite/work/placement.hpp"
#include "suite/work/tally.hpp"

namespace taugrid::experiments {

/// What of a unit's tally is the same for every curve of A coefficients: its numbers and bits.
Tally task_curve_tally(const Study& study, std::int64_t a);

/// One task's outcomes [A] on both splits, as `of(split, done)` finds them; done(share) is called on the way.
store::TensorFile task_curve(
    schedule::UnitContext& context,
    const std::function<study::Outcome(study::Split, const std::function<void(double)>&)>& of);

struct TaskCurves {
  at::Tensor test;      ///< accuracies [A, T]
  at::Tensor own_test;  ///< [T], of each θ0 + τt
  std::int64_t chosen;  ///< the row with the largest mean normalised accuracy on validation points
};

/// Writes GROUP/alpha [A], validation_accuracy and test_accuracy [A, T], both splits' samples' rows, the bits
/// /correct/GROUP/… [A, T, ⌈N/8⌉]; and of the chosen row absolute and normalised accuracy. `key(task)` is a
/// task_curve() unit of the regime, `scale` names the axis. Collective.
TaskCurves put_task_curves(store::ResultsWriter& out, const Finished& done, const Study& study,
                           const std::string& group, const std::string& scale, const std::string& regime,
                           const std::vector<double>& alpha,
                           const std::function<std::string(const std::string&)>& key);

/// A number without dimensions.
void put_scalar(store::ResultsWriter& out, const std::string& path, double value,
                const std::string& units = "1");

}  // namespace taugrid::experiments
