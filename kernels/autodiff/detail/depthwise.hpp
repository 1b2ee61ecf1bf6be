// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the tape needs of depthwise convolutions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace taugrid::autodiff::detail {

/// Σ_places dy_c x_c of each sample: x, dy [n, channels, h, w] → [n, channels·places], filters of √places².
at::Tensor per_sample_filters(const at::Tensor& x, const at::Tensor& dy, std::int64_t places);

}  // namespace taugrid::autodiff::detail
