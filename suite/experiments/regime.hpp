// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A fine-tuning regime: what it trains, on which function, with which loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "suite/models/model.hpp"

namespace taugrid::experiments {

struct Regime {
  std::string name;
  bool linear;                         ///< trained and used as f(x; θ0) + J(x)(θ − θ0) (paper 1, eq. 3)
  std::vector<autodiff::Kind> groups;  ///< trained; empty: all parameters
};

const Regime& regime(const std::string& name);
std::vector<std::string> regime_names();

/// A flag a block: whether the regime trains it; empty for all.
std::vector<bool> trained_blocks(const Regime& regime, const autodiff::Layout& layout);

/// One training loss and its gradient: cross-entropy of the head's logits, summed over the samples given and
/// divided by `whole`, the size of the whole batch, so that shards of a batch add up.
class TrainingLoss {
 public:
  /// θ0 is read for a linear regime. All outlive this object.
  TrainingLoss(const models::Encoder& encoder, const Regime& regime, const at::Tensor& theta0);

  /// Fills `gradient` [P] with the gradient in θ [P]; returns the loss.
  double operator()(const at::Tensor& theta, const models::Head& head, const at::Tensor& pixels,
                    const at::Tensor& labels, std::int64_t whole, at::Tensor& gradient) const;

 private:
  const models::Encoder& encoder_;
  const Regime& regime_;
  const at::Tensor& theta0_;
  std::vector<bool> trained_;
};

}  // namespace taugrid::experiments
