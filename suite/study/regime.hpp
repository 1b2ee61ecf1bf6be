// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A fine-tuning regime: what it trains, on which function, with which loss. All regimes are one table, in
// regime.cpp.
#pragma once

#include <string>
#include <vector>

#include "kernels/autodiff/layout.hpp"

namespace taugrid::study {

/// The tasks on whose inputs the τJp penalty is taken (paper 3, eq. 10 and 11).
enum class Penalty {
  none,
  strict,  ///< every other task and the control, each step
  cyclic,  ///< one of them a step, in turn
  earlier  ///< in turn, only tasks that come before in the stated order
};

/// What the τJp penalty takes of each point. The norm is one point's, never a batch's, so that both forms are
/// sums over points.
enum class PenaltyForm {
  squared,  ///< ‖J(x)(θ − θ0)‖² (paper 3, eq. 10 and 11)
  norm  ///< ‖J(x)(θ − θ0)‖, as the authors' code; its gradient at 0 is taken as 0, as PyTorch's is
};

struct Regime {
  std::string name;
  bool linear = false;  ///< trained and used as f(x; θ0) + J(x)(θ − θ0) (paper 1, eq. 3)
  std::vector<autodiff::Kind> groups = {};  ///< trained; empty: all parameters
  bool low_rank = false;  ///< moves their matrices by products of low rank alone: study::LowRank
  Penalty penalty = Penalty::none;
  std::string source = {};  ///< not trained: the task vectors of this regime, in the function above
  std::string start = {};   ///< goes on from this regime's θ*; empty: from θ0
  bool joint = false;       ///< one model of all tasks, no task vectors
};

/// Throws std::invalid_argument.
const Regime& regime(const std::string& name);
std::vector<std::string> regime_names();

/// A flag a block: whether the regime trains it, stages before `first_stage` being frozen, and with
/// `words_frozen` the head that reads label words; empty for all.
std::vector<bool> trained_blocks(const Regime& regime, const autodiff::Layout& layout, int first_stage = 0,
                                 bool words_frozen = false);

/// Length of the trained blocks end to end, `trained` as of trained_blocks().
std::int64_t trained_parameters(const std::vector<bool>& trained, const autodiff::Layout& layout);

}  // namespace taugrid::study
