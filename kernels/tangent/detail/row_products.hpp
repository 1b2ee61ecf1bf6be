// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Inner products of few long rows.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/tangent/detail/window.hpp"

namespace taugrid::tangent::detail {

/// K += G[rows] Gᵀ of the window, for gradients G [n, size]: K [rows, n], right of the diagonal and some left
/// of it where the window is symmetric.
void add_row_products(at::Tensor& kernel, const at::Tensor& gradients, const Window& window);

}  // namespace taugrid::tangent::detail
