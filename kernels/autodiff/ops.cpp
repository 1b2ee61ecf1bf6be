// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Operations on plain values: ATen's, each differentiable as often as one likes.
#include "kernels/autodiff/ops.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "kernels/autodiff/detail/formulas.hpp"

namespace taugrid::autodiff {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using Variables = torch::autograd::variable_list;

// x·σ(s x) = silu(s x)/s with s = 1.702, whose derivative is silu'(s x): ATen's fused silu, both ways, and
// the second derivative by hand. Autograd alone would take two passes over memory more in each direction.

/// g ⊙ silu'(s x)
struct QuickGeluSlope : Function<QuickGeluSlope> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& g, const at::Tensor& x) {
    context->save_for_backward({g, x});
    return at::silu_backward(g, x * detail::quick_gelu_slope);
  }
  /// A graph of ∇L is kept for many Hessian-vector products, so the two factors, which are the same in all of
  /// them, are computed in the first: a product is then two passes instead of fourteen.
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "quick GELU has no third derivative here");
    auto& kept = context->saved_data;
    if (kept.find("slope") == kept.end()) {
      const auto saved = context->get_saved_variables();
      const auto &g = saved[0], &x = saved[1];
      const auto u = x * detail::quick_gelu_slope, sigma = at::sigmoid(u);
      kept["slope"] = at::silu_backward(at::ones_like(u), u);
      // silu''(u) = σ (1 − σ) (2 + u (1 − 2σ))
      kept["curvature"] = g * detail::quick_gelu_slope * (sigma - sigma * sigma) * (2 + u * (1 - 2 * sigma));
    }
    const auto& h = gradients[0];
    return {h * kept["slope"].toTensor(), h * kept["curvature"].toTensor()};
  }
};

struct QuickGelu : Function<QuickGelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return at::silu(x * detail::quick_gelu_slope).mul_(1.0 / detail::quick_gelu_slope);
  }
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    return {QuickGeluSlope::apply(gradients[0], context->get_saved_variables()[0])};
  }
};

}  // namespace

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
  return QuickGelu::apply(x);
}

at::Tensor attention(const at::Tensor& qkv, std::int64_t heads) {
  const auto p = detail::split_heads(qkv, heads);
  const auto weights = at::softmax(at::bmm(p.q, p.k.transpose(1, 2)).mul_(p.scale), -1);
  return detail::join_heads(at::bmm(weights, p.v), p.samples);
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
