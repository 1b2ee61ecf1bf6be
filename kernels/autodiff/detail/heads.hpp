// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Tokens by heads, as the products of attention take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/autodiff/packing.hpp"

namespace taugrid::autodiff::detail {

/// x [n, tokens, parts·heads·d], or packed [Σ lengths, parts·heads·d] → `parts` tensors [n·heads, tokens, d];
/// zeros for tokens that are none.
std::vector<at::Tensor> split_heads(const at::Tensor& x, std::int64_t parts, std::int64_t heads,
                                    const Packing& packing);

/// Tensors [n·heads, tokens, d] → [n, tokens, parts·heads·d], or packed.
at::Tensor join_heads(at::TensorList parts, std::int64_t heads, const Packing& packing);

}  // namespace taugrid::autodiff::detail
