// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The units of one measurement of every pair of tasks: one a pair, or, where pairs are many, one a tile of
// them, so that seventy tasks do not make thousands of files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/range.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/ledger/tally.hpp"

namespace taugrid::experiments {

class PairUnits {
 public:
  static constexpr std::int64_t most_units = 96;

  /// `kind`: what the keys begin with, "disentanglement/linear".
  PairUnits(const Study& study, std::string kind);

  using TallyOf = std::function<Tally(std::size_t pair)>;
  using NeedsOf = std::function<std::vector<std::string>(std::size_t pair)>;
  /// The needs of a unit that edits the model by both vectors of a pair, on both tasks, and reads the units
  /// `task_key` of the regime and each task.
  static NeedsOf needs(const Study& study, const std::string& regime,
                       std::string (*task_key)(const std::string& regime, const std::string& task));
  using Compute = std::function<store::TensorFile(std::size_t pair, schedule::UnitContext& context)>;
  /// Appends the units. A pair's tensors have the same names and shapes for all pairs. A tile's finished
  /// pairs are kept when it is stopped or killed.
  void add(std::vector<schedule::WorkUnit>& units, const TallyOf& tally, const NeedsOf& needs,
           const Compute& compute) const;

  /// The place of each unit's tensors in a data set whose first dimension is the pair.
  std::vector<Box> boxes() const;

 private:
  std::vector<Range> tiles() const;
  std::string key_of(const Range& tile) const;
  store::TensorFile compute_tile(const Range& tile, const Compute& compute,
                                 schedule::UnitContext& context) const;

  const Study& study_;
  std::string kind_;
};

}  // namespace taugrid::experiments
