// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace taugrid::autodiff::detail {

/// Σ_places x ⊙ y of each sample's channels, in one pass: x and y [n, channels, h, w] → [n, channels].
at::Tensor channel_sums(const at::Tensor& x, const at::Tensor& y);

}  // namespace taugrid::autodiff::detail
