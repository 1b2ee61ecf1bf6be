// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// An edited model of several tasks at the coefficient α that validation points choose: in one unit the curve
// on validation points, and one model on test points.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/experiments/experiment.hpp"

namespace taugrid::experiments {

/// Accuracies [n] of each task's own model on either split, by which an edited model's are normalised.
struct OwnAccuracies {
  at::Tensor validation, test;
};

/// The accuracies of a regime's models. Reads the units key::single_task().
OwnAccuracies own_accuracies(const Study& study, const schedule::RunFolder& folder, const std::string& regime,
                             const std::vector<std::size_t>& tasks);

/// Outcomes [A] of task t's points under these coefficients.
using OutcomesOf =
    std::function<study::Outcome(std::size_t t, study::Split, const std::vector<double>& alpha)>;

/// The edit at these coefficients.
using EditAt = std::function<Edit(const std::vector<double>& alpha)>;

/// The outcomes of an edit's models on the evaluation points.
OutcomesOf outcomes_of(const Study& study, const EditedOutputs& models, EditAt edit,
                       const schedule::UnitContext& context);

/// Adds what at_chosen_alpha() computes on task t's points: all coefficients on validation points, the chosen
/// one on test points; `times` as much, where it is done as often.
void count_chosen(Tally& tally, const EditAt& edit, const std::vector<double>& alpha, std::size_t t,
                  std::int64_t times = 1);

/// For n > 0 tasks: validation_accuracy [A,n]; coefficient, the α with the largest mean normalised accuracy
/// on these points; at it on test points accuracy [n], correct [n,⌈N/8⌉], absolute and normalized, their
/// means. `progress` is called with the share done.
store::TensorFile at_chosen_alpha(
    const std::vector<std::size_t>& tasks, const std::vector<double>& alpha, const OwnAccuracies& single,
    const OutcomesOf& of, const std::function<void(double)>& progress = [](double) {});

/// The same among all T tasks of the run, where `tasks` alone, which may be none, were edited: NaN, of bits
/// 0, in the places of the others.
store::TensorFile at_chosen_alpha_among_all(const Study& study, const std::vector<std::size_t>& tasks,
                                            const std::vector<double>& alpha, const OwnAccuracies& single,
                                            const OutcomesOf& of,
                                            const std::function<void(double)>& progress);

}  // namespace taugrid::experiments
