// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the cases of the model, of its Hessian and of merges share.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/autodiff/products.hpp"
#include "kernels/autodiff/tape.hpp"
#include "suite/bench/fixture.hpp"

namespace taugrid::bench {

inline double relative(const at::Tensor& value, const at::Tensor& expected) {
  const auto e = expected.to(at::kDouble);
  return ((value.to(at::kDouble) - e).norm() / e.norm()).item<double>();
}
inline double relative(double value, double expected) {
  return std::abs(value - expected) / std::abs(expected);
}

/// Lets a case's closures share what a run leaves behind.
template <class T>
std::shared_ptr<T> shared(T value = {}) {
  return std::make_shared<T>(std::move(value));
}

inline double parameters(const models::Encoder& encoder) {
  return static_cast<double>(encoder.layout().size());
}

/// Additions and multiplications of the NTK's Gram matrix, for one logit: of the inner products of each pair
/// of points, which are of each layer's outputs' gradients, token by token.
template <class Logits>
double gram_flops(const autodiff::Layout& layout, const Logits& logits, const at::Tensor& theta) {
  autodiff::Recording recording;
  autodiff::record(layout, logits, theta, recording);
  double flops = 0;
  for (const auto& use : recording.tape.uses) {
    if (use.form != autodiff::Use::Form::product) continue;
    const auto& y = recording.tape.outputs[use.output];  // [n, tokens, out] or [n, out]
    const auto n = static_cast<double>(y.size(0)), tokens = static_cast<double>(y.dim() == 3 ? y.size(1) : 1);
    flops += n * (n + 1) * tokens * tokens * static_cast<double>(y.size(-1));
  }
  return flops;
}

inline models::Readout in_double(const models::Readout& head) { return head.to(at::kDouble); }

}  // namespace taugrid::bench
