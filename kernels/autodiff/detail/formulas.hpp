// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the three kinds of numbers share.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

namespace taugrid::autodiff::detail {

inline constexpr double quick_gelu_slope = 1.702;

struct Heads {
  at::Tensor q, k, v;  // [n·heads, tokens, d], contiguous
  std::int64_t samples;
  double scale;  // 1/√d, of the scores
};

// unbind, not select: its backward is one copy, where each select would fill and add a tensor of all three.
inline Heads split_heads(const at::Tensor& qkv, std::int64_t heads) {
  const auto n = qkv.size(0), tokens = qkv.size(1), d = qkv.size(2) / (3 * heads);
  const auto parts = qkv.view({n, tokens, 3, heads, d})
                         .permute({2, 0, 3, 1, 4})
                         .reshape({3, n * heads, tokens, d})
                         .unbind(0);
  return {parts[0], parts[1], parts[2], n, 1.0 / std::sqrt(static_cast<double>(d))};
}

inline at::Tensor join_heads(const at::Tensor& x, std::int64_t samples) {  // → [samples, tokens, heads·d]
  return x.view({samples, -1, x.size(1), x.size(2)}).transpose(1, 2).reshape({samples, x.size(1), -1});
}

}  // namespace taugrid::autodiff::detail
