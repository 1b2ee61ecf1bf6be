// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The training step that the bench times for every architecture: loss and gradient, clipping, AdamW.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "suite/training/adamw.hpp"

namespace taugrid::bench {

class TrainingStep {
 public:
  /// Returns the loss at θ [P] and writes ∇L, the trained blocks end to end.
  using Loss = std::function<double(const at::Tensor& theta, at::Tensor& gradient)>;
  /// Returns the same loss at θ [P] in float64.
  using ExactLoss = std::function<double(const at::Tensor& theta)>;

  /// Steps change `theta` [P] in place, its trained blocks alone (empty: all).
  TrainingStep(at::Tensor theta, const autodiff::Layout& layout, std::vector<bool> trained, Loss loss);

  void run();

  /// Takes one more step and returns the larger of two relative errors, both without a unit: that of ‖∇L‖
  /// against the slope of the exact loss along ∇L (central differences) where the first step began, and that
  /// of the move of θ against AdamW's equations in float64 (Loshchilov and Hutter 2019, algorithm 2) for this
  /// gradient. Neither depends on how many steps were taken before: where a loss has gone to 0, float32
  /// rounds its gradient away.
  double error(const ExactLoss& exact_loss);

  const std::vector<double>& losses() const { return losses_; }
  /// Gives the gradient's memory back.
  void forget_gradient() { gradient_ = at::Tensor(); }

 private:
  at::Tensor on_all_blocks(const at::Tensor& of_trained_blocks) const;
  at::Tensor moved_by_adamw(const at::Tensor& gradient) const;

  at::Tensor theta_, gradient_, first_;  // first_: θ before the first step
  const autodiff::Layout* layout_;
  std::vector<bool> trained_;
  Loss loss_;
  training::AdamWSettings settings_;
  training::AdamW adamw_;
  std::vector<double> losses_;
};

}  // namespace taugrid::bench
