// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Softmax attention. Softmax has a symmetric Jacobian, so its tangent is ATen's fused backward kernel applied
// to the tangent of the scores.
#include <ATen/ATen.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

struct Heads {
  at::Tensor q, k, v;  // [n·heads, tokens, d], contiguous
  std::int64_t samples;
  double scale;  // 1/√d, of the scores
};

// unbind, not select: its backward is one copy, where each select would fill and add a tensor of all three.
Heads split_heads(const at::Tensor& qkv, std::int64_t heads) {
  const auto n = qkv.size(0), tokens = qkv.size(1), d = qkv.size(2) / (3 * heads);
  const auto parts = qkv.view({n, tokens, 3, heads, d})
                         .permute({2, 0, 3, 1, 4})
                         .reshape({3, n * heads, tokens, d})
                         .unbind(0);
  return {parts[0], parts[1], parts[2], n, 1.0 / std::sqrt(static_cast<double>(d))};
}

at::Tensor join_heads(const at::Tensor& x, std::int64_t samples) {  // → [samples, tokens, heads·d]
  return x.view({samples, -1, x.size(1), x.size(2)}).transpose(1, 2).reshape({samples, x.size(1), -1});
}

/// softmax(q kᵀ/√d + mask) [n·heads, tokens, tokens]
at::Tensor weights_of(const Heads& p, const at::Tensor& mask) {
  auto scores = at::bmm(p.q, p.k.transpose(1, 2)).mul_(p.scale);
  if (mask.defined()) {
    const auto n = p.samples, tokens = p.k.size(1);
    scores = scores.view({n, -1, tokens, tokens}).add(mask.view({n, 1, 1, tokens})).view(scores.sizes());
  }
  return at::softmax(scores, -1);
}

}  // namespace

at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const at::Tensor& mask) {
  const auto p = split_heads(qkv, heads);
  return join_heads(at::bmm(weights_of(p, mask), p.v), p.samples);
}

Dual attention(const Dual& qkv, std::int64_t heads, const at::Tensor& mask) {
  const auto p = split_heads(qkv.value, heads);
  const auto weights = weights_of(p, mask);
  Dual y{join_heads(at::bmm(weights, p.v), p.samples), {}};
  y.tangent = detail::tangent_of([&] {
    if (!qkv.tangent.defined()) return at::Tensor();
    const auto d = split_heads(qkv.tangent, heads);
    const auto d_scores = at::bmm(d.q, p.k.transpose(1, 2)).baddbmm_(p.q, d.k.transpose(1, 2)).mul_(p.scale);
    const auto d_weights = at::_softmax_backward_data(d_scores, weights, -1, d_scores.scalar_type());
    return join_heads(at::bmm(d_weights, p.v).baddbmm_(weights, d.v), p.samples);
  });
  return y;
}

Recorded attention(const Recorded& qkv, std::int64_t heads, const at::Tensor& mask) {
  return {attention(qkv.value, heads, mask), qkv.tape, -1};
}

Counted attention(const Counted& qkv, std::int64_t heads, const at::Tensor&) {
  const auto n = qkv.shape[0], tokens = qkv.shape[1], width = qkv.shape[2] / 3;
  const double copy = detail::numbers(qkv), scores = static_cast<double>(n * heads * tokens * tokens);
  const double out = copy / 3;
  auto& meter = *qkv.meter;
  meter.multiply(4 * static_cast<double>(n * tokens * tokens * width));  // q kᵀ, and weights times v
  meter.keep(copy + scores);
  // Alive together: heads, scores and weights, then heads, weights and the outputs by heads.
  const double held = copy + scores + std::max(scores, out);
  meter.pass(held, held);
  return detail::counted(qkv.meter, {n, tokens, width});
}

}  // namespace taugrid::autodiff
