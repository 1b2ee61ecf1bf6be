// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the tape, and batch norm, need of convolutions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/autodiff/numbers.hpp"

namespace taugrid::autodiff::detail {

struct Window {
  std::int64_t side, stride, padding;
};

/// What each place of a convolution's output is a product with: x [n, in, h, w] → [n, places, side², in].
/// Channels stay together, so that a row of a filter is one piece of memory.
at::Tensor patches(const at::Tensor& x, const Window& window);

/// Σ_places (dy ⊙ factor) ⊗ x of each sample: patches x [n, places, side², in], dy [n, out, h, w] and factor
/// [out] or undefined → [n, out·side²·in].
at::Tensor per_sample_filters(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& factor);

struct RecordedConvolution {
  Recorded y;
  at::Tensor plain;  ///< W ∗ x alone
};

/// y = (W ∗ x) ⊙ factor + shift by channels, factor and shift [out] or undefined, with its use of W on the
/// tape, of whose outputs y is the last. Where x is `rectified` before, max(x, 0) takes its place.
RecordedConvolution record_convolution(const Recorded& x, bool rectified, const Recorded& weight,
                                       const at::Tensor& factor, const at::Tensor& shift,
                                       const Window& window);

/// The convolution with what of it stays for its filters' gradients, but nothing of its output.
Counted count_convolution(const Counted& x, const Counted& weight, const Window& window);

}  // namespace taugrid::autodiff::detail
