// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A fine-tuning regime: what it trains, on which function, with which loss. All regimes are one table, in
// regime.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "kernels/autodiff/products.hpp"
#include "suite/models/model.hpp"

namespace taugrid::experiments {

/// Whose inputs the τJp penalty λ Σ E‖J(x)(θ − θ0)‖² is taken on (paper 3, eq. 10 and 11).
enum class Penalty {
  none,
  strict,  ///< every other task and the control, each step
  cyclic,  ///< one of them a step, in turn
  earlier  ///< in turn, only tasks that come before in the stated order
};

struct Regime {
  std::string name;
  bool linear = false;  ///< trained and used as f(x; θ0) + J(x)(θ − θ0) (paper 1, eq. 3)
  std::vector<autodiff::Kind> groups = {};  ///< trained; empty: all parameters
  Penalty penalty = Penalty::none;
  std::string source = {};  ///< not trained: the task vectors of this regime, in the function above
  std::string start = {};   ///< goes on from this regime's θ*; empty: from θ0
  bool joint = false;       ///< one model of all tasks, no task vectors
};

/// Throws std::invalid_argument.
const Regime& regime(const std::string& name);
std::vector<std::string> regime_names();

/// A flag a block: whether the regime trains it; empty for all.
std::vector<bool> trained_blocks(const Regime& regime, const autodiff::Layout& layout);

/// Length of the trained blocks end to end, `trained` as of trained_blocks().
std::int64_t trained_parameters(const std::vector<bool>& trained, const autodiff::Layout& layout);

/// Forward passes that a training step over as many samples is worth, by matrix products: forward 1, gradient
/// of the activations 1, of the weights their trained share; a linearised model's tangent pass 2 besides.
double step_passes(const Regime& regime, const autodiff::Layout& layout);

/// A part of one step's batch: Σ over its samples of the cross-entropy under `head`, or, without one, of
/// ‖J(x)(θ − θ0)‖²; times `weight`. Weights hold the division by the number of samples, so that parts of one
/// batch on several ranks add up.
struct Part {
  at::Tensor pixels;         ///< [n, c, h, w]
  at::Tensor labels;         ///< int64 [n]; undefined for a penalty
  const models::Head* head;  ///< nullptr for a penalty
  double weight;
};

/// float64 [] each, where θ is: who reads them waits for the device.
struct LossValue {
  at::Tensor loss;     ///< cross-entropy
  at::Tensor penalty;  ///< weighted

  double sum() const { return (loss + penalty).item<double>(); }
};

/// One training loss and its gradient, in one pass over the joined parts.
class TrainingLoss {
 public:
  /// θ0 is read for a linear regime. All outlive this object. The encoder's passes are in numbers of `type`,
  /// θ's own unless given; the losses and the gradient in those of θ.
  TrainingLoss(const models::Encoder& encoder, const Regime& regime, const at::Tensor& theta0,
               std::optional<at::ScalarType> type = {});

  /// Fills `gradient` with the gradient in the trained blocks of θ [P], end to end; with `buckets`, as at
  /// pull_back(). A penalty needs a linear regime: std::invalid_argument.
  LossValue operator()(const at::Tensor& theta, const std::vector<Part>& parts, at::Tensor& gradient,
                       const autodiff::Buckets* buckets = nullptr) const;

 private:
  const models::Encoder& encoder_;
  const Regime& regime_;
  const at::Tensor& theta0_;
  at::ScalarType type_;
  std::vector<bool> trained_;
};

}  // namespace taugrid::experiments
