// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Operations on plain values: ATen's, each differentiable as often as one likes.
#include "kernels/autodiff/ops.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/autodiff/detail/formulas.hpp"

namespace taugrid::autodiff {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto rows = x.reshape({-1, x.size(-1)});
  auto y = bias.defined() ? at::addmm(bias, rows, weight.t()) : at::mm(rows, weight.t());
  if (x.dim() == 2) return y;
  auto shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return y.view(shape);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) { return linear(x, weight, at::Tensor()); }

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  if (activation == Activation::gelu) return at::gelu(x);
  // x·σ(1.702 x) = silu(1.702 x)/1.702: silu is one fused pass, both ways.
  return at::silu(x * detail::quick_gelu_slope) * (1.0 / detail::quick_gelu_slope);
}

at::Tensor attention(const at::Tensor& qkv, std::int64_t heads) {
  const auto parts = detail::split_heads(qkv, heads);
  const auto weights = at::softmax(at::matmul(parts.q, parts.k.transpose(-2, -1)), -1);
  return detail::join_heads(at::matmul(weights, parts.v));
}

at::Tensor add(const at::Tensor& x, const at::Tensor& y) { return x + y; }

at::Tensor prepend_token(const at::Tensor& token, const at::Tensor& x) {
  return at::cat({token.view({1, 1, -1}).expand({x.size(0), 1, x.size(2)}), x}, 1);
}

at::Tensor add_position(const at::Tensor& x, const at::Tensor& position) { return x + position; }

at::Tensor first_token(const at::Tensor& x) { return x.select(1, 0); }

at::Tensor normalise_rows(const at::Tensor& z) {
  return z / at::linalg_vector_norm(z, 2, at::IntArrayRef{-1}, true);
}

at::Tensor cosine_logits(const at::Tensor& z, const at::Tensor& head, double scale) {
  return at::mm(z, head.t()) * scale;
}

at::Tensor constant(const at::Tensor& x, const at::Tensor&) { return x; }

}  // namespace taugrid::autodiff
