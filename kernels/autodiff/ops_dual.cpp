// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Operations on dual numbers: the value as in ops.cpp, the tangent by the chain rule. Layer norm and softmax
// have symmetric Jacobians, so their tangents are ATen's fused backward kernels applied to the tangent.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/autodiff/detail/formulas.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

/// Computes a tangent outside any autograd graph.
template <class Rule>
at::Tensor tangent_of(Rule&& rule) {
  const at::NoGradGuard no_grad;
  return rule();
}

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

}  // namespace

Dual linear(const Dual& x, const Dual& weight, const Dual& bias) {
  Dual y{linear(x.value, weight.value, bias.value), {}};
  y.tangent = tangent_of([&] {  // dy = x dWᵀ + dx Wᵀ + db
    at::Tensor t;
    if (weight.tangent.defined())
      t = linear(x.value, weight.tangent, bias.tangent).view({-1, weight.value.size(0)});
    if (x.tangent.defined()) {
      t = t.defined() ? t.addmm_(rows_of(x.tangent), weight.value.t())
                      : linear(x.tangent, weight.value, bias.tangent).view({-1, weight.value.size(0)});
    }
    return t.defined() ? t.view(y.value.sizes()) : t;
  });
  return y;
}

Dual linear(const Dual& x, const Dual& weight) { return linear(x, weight, Dual{}); }

Dual layer_norm(const Dual& x, const Dual& weight, const Dual& bias, double eps) {
  const auto width = x.value.size(-1);
  auto [value, mean, rstd] = at::native_layer_norm(x.value, {width}, weight.value, bias.value, eps);
  Dual y{value, {}};
  y.tangent = tangent_of([&, mean = mean, rstd = rstd] {
    const auto input = x.value.detach();
    at::Tensor t;
    if (weight.tangent.defined()) {  // x̂ ⊙ dw + db
      t = std::get<0>(at::native_layer_norm(input, {width}, weight.tangent, bias.tangent, eps));
    }
    if (x.tangent.defined()) {  // w ⊙ ∂x̂/∂x dx, the Jacobian of x̂ being symmetric
      const auto dx_hat =
          std::get<0>(at::native_layer_norm_backward(x.tangent, input, {width}, mean.detach(), rstd.detach(),
                                                     std::nullopt, std::nullopt, {true, false, false}));
      t = t.defined() ? t.addcmul_(dx_hat, weight.value) : dx_hat.mul(weight.value);
    }
    return t;
  });
  return y;
}

Dual activate(const Dual& x, Activation activation) {
  if (activation == Activation::gelu) {
    Dual y{at::gelu(x.value), {}};
    y.tangent = tangent_of(
        [&] { return x.tangent.defined() ? at::gelu_backward(x.tangent, x.value) : at::Tensor(); });
    return y;
  }
  Dual y{activate(x.value, activation), {}};
  y.tangent = tangent_of([&] {  // silu'(s x) dx, s = 1.702
    return x.tangent.defined() ? at::silu_backward(x.tangent, x.value * detail::quick_gelu_slope)
                               : at::Tensor();
  });
  return y;
}

Dual attention(const Dual& qkv, std::int64_t heads) {
  const auto p = detail::split_heads(qkv.value, heads);
  const auto weights = at::softmax(at::bmm(p.q, p.k.transpose(1, 2)).mul_(p.scale), -1);
  Dual y{detail::join_heads(at::bmm(weights, p.v), p.samples), {}};
  y.tangent = tangent_of([&] {
    if (!qkv.tangent.defined()) return at::Tensor();
    const auto d = detail::split_heads(qkv.tangent, heads);
    const auto d_scores = at::bmm(d.q, p.k.transpose(1, 2)).baddbmm_(p.q, d.k.transpose(1, 2)).mul_(p.scale);
    const auto d_weights = at::_softmax_backward_data(d_scores, weights, -1, d_scores.scalar_type());
    return detail::join_heads(at::bmm(d_weights, p.v).baddbmm_(weights, d.v), p.samples);
  });
  return y;
}

Dual add(const Dual& x, const Dual& y) {
  return {x.value + y.value, tangent_of([&] { return sum_of(x.tangent, y.tangent); })};
}

Dual prepend_token(const Dual& token, const Dual& x) {
  Dual y{prepend_token(token.value, x.value), {}};
  y.tangent = tangent_of([&] {
    if (!token.tangent.defined() && !x.tangent.defined()) return at::Tensor();
    const auto t = token.tangent.defined() ? token.tangent : at::zeros_like(token.value);
    return prepend_token(t, x.tangent.defined() ? x.tangent : at::zeros_like(x.value));
  });
  return y;
}

Dual add_position(const Dual& x, const Dual& position) {
  Dual y{x.value + position.value, {}};
  y.tangent = tangent_of([&] {
    if (!position.tangent.defined()) return x.tangent;
    return x.tangent.defined() ? x.tangent + position.tangent
                               : position.tangent.expand_as(x.value).contiguous();
  });
  return y;
}

Dual first_token(const Dual& x) {
  return {first_token(x.value), x.tangent.defined() ? first_token(x.tangent) : at::Tensor()};
}

Dual normalise_rows(const Dual& z) {
  const auto norm = at::linalg_vector_norm(z.value, 2, at::IntArrayRef{-1}, true);
  Dual u{z.value / norm, {}};
  u.tangent = tangent_of([&] {  // (dz − u ⟨u, dz⟩)/‖z‖
    if (!z.tangent.defined()) return at::Tensor();
    return (z.tangent - u.value * (u.value * z.tangent).sum(-1, true)) / norm;
  });
  return u;
}

Dual cosine_logits(const Dual& z, const at::Tensor& head, double scale) {
  return {cosine_logits(z.value, head, scale), tangent_of([&] {
            return z.tangent.defined() ? cosine_logits(z.tangent, head, scale) : at::Tensor();
          })};
}

Dual constant(const at::Tensor& x, const Dual&) { return {x, {}}; }

}  // namespace taugrid::autodiff
