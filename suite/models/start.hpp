// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Starts at random that several models and classifiers share.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>

namespace taugrid::models {

/// PyTorch's start of a linear map of `width` numbers: weights and biases even in ±1/√width.
inline void start_linear(at::Tensor view, std::int64_t width, at::Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  view.uniform_(-bound, bound, generator);
}

}  // namespace taugrid::models
