// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the cases of the model, of its Hessian and of merges share.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

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

inline models::Readout in_double(const models::Readout& head) { return head.to(at::kDouble); }

}  // namespace taugrid::bench
