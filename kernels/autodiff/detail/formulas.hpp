// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the three kinds of numbers share.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

namespace taugrid::autodiff::detail {

inline constexpr double quick_gelu_slope = 1.702;

struct Heads {
  at::Tensor q;  // [n, heads, tokens, d], already divided by √d
  at::Tensor k, v;
};

inline Heads split_heads(const at::Tensor& qkv, std::int64_t heads) {
  const auto n = qkv.size(0), tokens = qkv.size(1), d = qkv.size(2) / (3 * heads);
  const auto parts = qkv.view({n, tokens, 3, heads, d}).permute({2, 0, 3, 1, 4});  // [3, n, heads, tokens, d]
  return {parts.select(0, 0) * (1.0 / std::sqrt(static_cast<double>(d))), parts.select(0, 1),
          parts.select(0, 2)};
}

inline at::Tensor join_heads(const at::Tensor& x) {  // [n, heads, tokens, d] → [n, tokens, heads·d]
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
}

}  // namespace taugrid::autodiff::detail
