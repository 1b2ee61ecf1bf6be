// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The one loop that trains: it goes on where a killed run saved its state, looks at the losses, saves, stops where
// that is asked for, and says how far it is.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/schedule/work_unit.hpp"

namespace taugrid::training {

/// A training in steps, whatever is trained.
struct Steps {
  std::string what;  ///< the unit, for messages
  std::int64_t steps = 0;
  double checkpoint_seconds = 60;  ///< between saved states; 0: one only where a stop asks for it
  bool save_last = false;          ///< also when all steps are done: the unit goes on behind them
  at::Device device = at::kCPU;
  /// One step, and its loss, for the progress line.
  std::function<at::Tensor(std::int64_t number)> step;
  /// The state that the next step depends on, all of it, as it lies in memory; contiguous and of one shape
  /// throughout.
  std::function<store::TensorFile()> state;
  /// Sums that must be finite: [steps], filled by step().
  std::vector<at::Tensor> losses;
  /// Called after the state was taken over, and after each step, with the number of steps that are done.
  std::function<void(std::int64_t done)> after = [](std::int64_t) {};
};

/// Runs the steps that are missing; all ranks of the group. The state lies in the unit's scratch folder: the
/// group's first rank alone reads and writes it, and all go on from what it read. Returns the seconds of all steps,
/// those before a kill included. Throws Interrupted after a stop request, and std::runtime_error, naming the step,
/// where a loss is not finite.
double run(const Steps& steps, schedule::UnitContext& context);

}  // namespace taugrid::training
