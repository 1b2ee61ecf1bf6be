// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Training losses of all regimes, and their gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "kernels/autodiff/products.hpp"
#include "suite/models/cost.hpp"
#include "suite/models/readout.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::training {

/// One term of a step's loss: Σ over its samples of the loss (Readout::loss()), or, without labels, of the
/// penalty, J that of the readout's output, or of the entropy of the prediction; times `weight`. Weights hold
/// the division by the number of samples, so that terms of one batch on several ranks add up.
struct Term {
  models::Batch batch;
  at::Tensor labels;  ///< as of Readout::loss(); undefined for a penalty and for an entropy
  const models::Readout* readout;
  double weight;
  study::PenaltyForm form = study::PenaltyForm::squared;
  bool entropy = false;
  double epsilon = 0;  ///< of the entropy −Σ p log(p + ε)

  bool penalty() const { return !labels.defined() && !entropy; }
};

/// float64 [] each, where θ is: who reads them waits for the device.
struct LossValue {
  at::Tensor loss;     ///< cross-entropy, and entropy
  at::Tensor penalty;  ///< weighted

  double sum() const { return loss.add(penalty).item<double>(); }
};

/// One training loss and its gradient, in one pass over the joined terms.
class TrainingLoss {
 public:
  /// The start is read for a linear regime, which is linearised there. All outlive this object. `trained`: a flag
  /// a block, empty for all. The encoder's passes are in numbers of `type`, θ's own unless given; the losses and
  /// the gradient in those of θ.
  TrainingLoss(const models::Encoder& encoder, const study::Regime& regime, const models::State& start,
               std::vector<bool> trained, std::optional<at::ScalarType> type = {});

  /// Fills `gradient` with the gradient in the trained blocks of θ [P], end to end; with `buckets`, as at
  /// pull_back(). `statistics`: of a model whose samples mix in training, for a regime that is not linear; a rank
  /// without a sample takes part in them. A penalty needs a linear regime: std::invalid_argument.
  LossValue operator()(const at::Tensor& theta, const std::vector<Term>& terms, at::Tensor& gradient,
                       const autodiff::Buckets* buckets = nullptr,
                       autodiff::BatchStatistics* statistics = nullptr) const;

 private:
  LossValue plain(const at::Tensor& theta, const std::vector<Term>& terms, at::Tensor& gradient,
                  const autodiff::Buckets* buckets, autodiff::BatchStatistics* statistics) const;
  LossValue linear(const at::Tensor& theta, const std::vector<Term>& terms, at::Tensor& gradient,
                   const autodiff::Buckets* buckets) const;
  models::Given given(const std::vector<Term>& terms) const;

  const models::Encoder& encoder_;
  const study::Regime& regime_;
  const models::State& start_;
  at::ScalarType type_;
  std::vector<bool> trained_;
};

/// Flops that a training step over one input is worth: a forward pass, the gradient of the activations, and of the
/// trained weights; a linearised model's tangent pass twice a forward pass besides.
double step_flops_an_input(const study::Regime& regime, const std::vector<bool>& trained,
                           const models::Cost& cost);

}  // namespace taugrid::training
