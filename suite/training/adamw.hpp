// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// AdamW (decoupled weight decay) and plain gradient descent on one flat vector, and the learning-rate
// schedules.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::training {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.1;
};

class AdamW {
 public:
  /// Updates θ [P] in place. State is held for the trained blocks alone (empty: all).
  AdamW(const at::Tensor& theta, const autodiff::Layout& layout, const std::vector<bool>& trained,
        const AdamWSettings& settings);

  /// One step with the gradient of the trained blocks, end to end.
  void step(const at::Tensor& gradient, double learning_rate);

  /// Moments and step count, to go on bitwise.
  void save(store::TensorFile& file, const std::string& name = "adamw") const;
  void load(const store::TensorFile& file, const std::string& name = "adamw");

 private:
  struct Segment {
    std::int64_t from, count;  // in the gradient
    at::Tensor theta, first, second, steps;
  };
  AdamWSettings settings_;
  std::vector<Segment> segments_;
};

/// θ − rate (∇L + decay θ), without momentum.
class GradientDescent {
 public:
  /// Updates θ [P] in place, its trained blocks alone (empty: all).
  GradientDescent(const at::Tensor& theta, const autodiff::Layout& layout, const std::vector<bool>& trained,
                  double weight_decay);
  /// One step with the gradient of the trained blocks, end to end.
  void step(const at::Tensor& gradient, double learning_rate);

 private:
  double weight_decay_;
  std::vector<at::Tensor> theta_;  // segments
};

/// Linear warm-up from 0, then the base learning rate, as a factor of it.
double constant_schedule(std::int64_t step, std::int64_t warmup);
/// Linear warm-up from 0, then half a cosine to 0, as a factor of the base learning rate.
double cosine_schedule(std::int64_t step, std::int64_t warmup, std::int64_t steps);
/// Linear warm-up from 0, then a straight line to 0, as a factor of the base learning rate.
double linear_schedule(std::int64_t step, std::int64_t warmup, std::int64_t steps);

/// Scales the gradient to at most this norm, on its device: the host does not wait.
void clip_norm(at::Tensor& gradient, double limit);

}  // namespace taugrid::training
