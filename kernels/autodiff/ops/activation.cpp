// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Functions of each number by itself, sums and products of two, and multiples.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numbers>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using Variables = torch::autograd::variable_list;

constexpr double slope = 1.702;  // of quick GELU

// Autograd alone takes two passes over memory more of quick GELU in each direction, and makes each factor of
// a second derivative anew in every Hessian-vector product. So each has, where it is there, ATen's fused
// kernel for the value and for g ⊙ φ'(x), and φ''(x) by hand.

/// factor·silu''(u), silu''(u) = σ (1 − σ) (2 + u (1 − 2σ))
at::Tensor silu_curvature(const at::Tensor& u, double factor) {
  const auto sigma = at::sigmoid(u);
  return factor * (sigma - sigma * sigma) * (2 + u * (1 - 2 * sigma));
}

/// x·σ(s x) = silu(s x)/s with s = 1.702, whose derivative is silu'(s x).
struct QuickGelu {
  static at::Tensor value(const at::Tensor& x) { return at::silu(x * slope).mul_(1.0 / slope); }
  static at::Tensor sloped(const at::Tensor& g, const at::Tensor& x) {
    return at::silu_backward(g, x * slope);
  }
  static at::Tensor curvature(const at::Tensor& x) { return silu_curvature(x * slope, slope); }
};

struct Silu {
  static at::Tensor value(const at::Tensor& x) { return at::silu(x); }
  static at::Tensor sloped(const at::Tensor& g, const at::Tensor& x) { return at::silu_backward(g, x); }
  static at::Tensor curvature(const at::Tensor& x) { return silu_curvature(x, 1); }
};

/// x (1 + tanh u)/2 with u = √(2/π) (x + 0.044715 x³).
struct GeluTanh {
  static at::Tensor value(const at::Tensor& x) { return at::gelu(x, "tanh"); }
  static at::Tensor sloped(const at::Tensor& g, const at::Tensor& x) {
    return at::gelu_backward(g, x, "tanh");
  }
  static at::Tensor curvature(const at::Tensor& x) {  // (1 − t²) (u' + x (u''/2 − t u'²)), t = tanh u
    constexpr double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
    const auto square = x.square();
    const auto t = at::tanh(c * x * (1 + cubic * square)), du = c * (1 + 3 * cubic * square);
    return (1 - t.square()) * (du + x * (3 * c * cubic * x - t * du.square()));
  }
};

/// x·Φ(x), whose second derivative is (2 − x²) exp(−x²/2)/√(2π).
struct Gelu {
  static at::Tensor value(const at::Tensor& x) { return at::gelu(x); }
  static at::Tensor sloped(const at::Tensor& g, const at::Tensor& x) { return at::gelu_backward(g, x); }
  static at::Tensor curvature(const at::Tensor& x) {
    const auto square = x.square();
    return (2 - square).mul_((square * -0.5).exp_()).mul_(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  }
};

/// g ⊙ φ'(x)
template <class Phi>
struct Sloped : Function<Sloped<Phi>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& g, const at::Tensor& x) {
    context->save_for_backward({g, x});
    return Phi::sloped(g, x);
  }
  /// A graph of ∇L is kept for many Hessian-vector products, so the two factors, which are the same in all of
  /// them, are computed in the first: a product is then two passes instead of fourteen.
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "an activation has no third derivative here");
    auto& kept = context->saved_data;
    if (kept.find("slope") == kept.end()) {
      const auto saved = context->get_saved_variables();
      kept["slope"] = Phi::sloped(at::ones_like(saved[1]), saved[1]);
      kept["curvature"] = saved[0] * Phi::curvature(saved[1]);
    }
    const auto& h = gradients[0];
    return {h * kept["slope"].toTensor(), h * kept["curvature"].toTensor()};
  }
};

/// φ(x)
template <class Phi>
struct Smooth : Function<Smooth<Phi>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return Phi::value(x);
  }
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    return {Sloped<Phi>::apply(gradients[0], context->get_saved_variables()[0])};
  }
};

struct Halves {
  at::Tensor first, second;
};
Halves halves_of(const at::Tensor& x) {
  const auto half = x.size(-1) / 2;
  return {x.narrow(-1, 0, half), x.narrow(-1, half, half)};
}

/// The gradient of φ(a) ⊙ b: (g ⊙ b ⊙ φ'(a), g ⊙ φ(a)).
template <class Phi>
struct GatedSloped : Function<GatedSloped<Phi>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& g, const at::Tensor& x) {
    context->save_for_backward({g, x});
    const auto [a, b] = halves_of(x);
    return at::cat({Phi::sloped(g * b, a), g * Phi::value(a)}, -1);
  }
  /// The factors are computed in the first Hessian-vector product, as in Sloped.
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "a gated unit has no third derivative here");
    auto& kept = context->saved_data;
    if (kept.find("value") == kept.end()) {
      const auto saved = context->get_saved_variables();
      const auto& g = saved[0];
      const auto [a, b] = halves_of(saved[1]);
      kept["value"] = Phi::value(a);
      kept["slope_b"] = Phi::sloped(b, a);
      kept["g_slope"] = Phi::sloped(g, a);
      kept["g_b_curvature"] = g * b * Phi::curvature(a);
    }
    const auto at = [&](const char* name) { return kept[name].toTensor(); };
    const auto [of_a, of_b] = halves_of(gradients[0]);
    const auto g = (of_a * at("slope_b")).addcmul_(of_b, at("value"));
    const auto a = (of_a * at("g_b_curvature")).addcmul_(of_b, at("g_slope"));
    return {g, at::cat({a, of_a * at("g_slope")}, -1)};
  }
};

/// φ(a) ⊙ b
template <class Phi>
struct Gated : Function<Gated<Phi>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const auto [a, b] = halves_of(x);
    return Phi::value(a) * b;
  }
  static Variables backward(AutogradContext* context, const Variables& gradients) {
    return {GatedSloped<Phi>::apply(gradients[0], context->get_saved_variables()[0])};
  }
};

template <class Phi>
at::Tensor tangent_of_gated(const at::Tensor& x, const at::Tensor& dx) {
  const auto [a, b] = halves_of(x);
  const auto [da, db] = halves_of(dx);
  return Phi::sloped(da * b, a).addcmul_(Phi::value(a), db);
}

/// φ'(x) ⊙ dx
at::Tensor directional(const at::Tensor& x, const at::Tensor& dx, Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return at::gelu_backward(dx, x);
    case Activation::gelu_tanh:
      return at::gelu_backward(dx, x, "tanh");
    case Activation::relu:
      return at::threshold_backward(dx, x, 0);
    case Activation::silu:
      return at::silu_backward(dx, x);
    case Activation::quick_gelu:
      break;
  }
  return at::silu_backward(dx, x * slope);  // silu'(s x) dx
}

}  // namespace

at::Tensor activate(const at::Tensor& x, Activation activation) {
  if (activation == Activation::gelu) return Smooth<Gelu>::apply(x);
  if (activation == Activation::gelu_tanh) return at::gelu(x, "tanh");
  if (activation == Activation::relu) return at::relu(x);
  if (activation == Activation::silu) return Smooth<Silu>::apply(x);
  return Smooth<QuickGelu>::apply(x);
}

Dual activate(const Dual& x, Activation activation) {
  return {activate(x.value, activation), detail::tangent_of([&] {
            return x.tangent.defined() ? directional(x.value, x.tangent, activation) : at::Tensor();
          })};
}

Recorded activate(const Recorded& x, Activation activation) {
  return {activate(x.value, activation), x.tape, -1};
}

Counted activate(const Counted& x, Activation activation) {
  auto y = detail::counted(x.meter, x.shape);
  if (activation == Activation::quick_gelu) y.meter->pass(detail::numbers(x), detail::numbers(x));
  // ReLU's slope follows from its result.
  detail::keep(activation == Activation::relu ? y : x);
  return y;
}

at::Tensor gated(const at::Tensor& x, Activation activation) {
  return activation == Activation::silu ? Gated<Silu>::apply(x) : Gated<GeluTanh>::apply(x);
}

Dual gated(const Dual& x, Activation activation) {
  return {gated(x.value, activation), detail::tangent_of([&] {
            if (!x.tangent.defined()) return at::Tensor();
            return activation == Activation::silu ? tangent_of_gated<Silu>(x.value, x.tangent)
                                                  : tangent_of_gated<GeluTanh>(x.value, x.tangent);
          })};
}

Recorded gated(const Recorded& x, Activation activation) { return {gated(x.value, activation), x.tape, -1}; }

Counted gated(const Counted& x, Activation) {
  auto shape = x.shape;
  shape.back() /= 2;
  auto y = detail::counted(x.meter, shape);
  detail::keep(x);
  y.meter->pass(detail::numbers(y), 2 * detail::numbers(y));
  return y;
}

at::Tensor soft_cap(const at::Tensor& x, double cap) { return at::tanh(x / cap) * cap; }

Dual soft_cap(const Dual& x, double cap) {
  const auto tanh = at::tanh(x.value / cap);
  return {tanh * cap, detail::tangent_of([&] {
            return x.tangent.defined() ? at::tanh_backward(x.tangent, tanh) : at::Tensor();
          })};
}

Recorded soft_cap(const Recorded& x, double cap) { return {soft_cap(x.value, cap), x.tape, -1}; }

Counted soft_cap(const Counted& x, double) {
  auto y = detail::counted(x.meter, x.shape);
  detail::keep(y);
  return y;
}

at::Tensor plus(const at::Tensor& parameter, double constant) { return parameter + constant; }
Dual plus(const Dual& parameter, double constant) { return {parameter.value + constant, parameter.tangent}; }
Recorded plus(const Recorded& parameter, double constant) {
  return {parameter.value + constant, parameter.tape, parameter.block};
}
Counted plus(const Counted& parameter, double) { return parameter; }

at::Tensor add(const at::Tensor& x, const at::Tensor& y) { return x + y; }

Dual add(const Dual& x, const Dual& y) {
  return {x.value + y.value, detail::tangent_of([&] { return detail::sum_of(x.tangent, y.tangent); })};
}

Recorded add(const Recorded& x, const Recorded& y) { return {x.value + y.value, x.tape, -1}; }

Counted add(const Counted& x, const Counted&) { return detail::counted(x.meter, x.shape); }

at::Tensor scale(const at::Tensor& x, const at::Tensor& weight) { return x * weight; }

Dual scale(const Dual& x, const Dual& weight) {
  Dual y{scale(x.value, weight.value), {}};
  y.tangent = detail::tangent_of([&] {  // x ⊙ dw + dx ⊙ w
    at::Tensor t;
    if (weight.tangent.defined()) t = x.value * weight.tangent;
    if (!x.tangent.defined()) return t;
    return t.defined() ? t.addcmul_(x.tangent, weight.value) : x.tangent * weight.value;
  });
  return y;
}

Recorded scale(const Recorded& x, const Recorded& weight) {
  Recorded y{scale(x.value, weight.value), x.tape, -1};
  y.tape->uses.push_back(
      {Use::Form::scale, weight.block, x.value.detach(), {}, detail::keep(*y.tape, y.value)});
  return y;
}

Counted scale(const Counted& x, const Counted&) {
  auto y = detail::counted(x.meter, x.shape);
  detail::keep(x);
  y.meter->record(y.storage);
  return y;
}

at::Tensor multiply(const at::Tensor& x, const at::Tensor& y) { return x * y; }

Dual multiply(const Dual& x, const Dual& y) {
  return {x.value * y.value, detail::tangent_of([&] {
            at::Tensor t;
            if (x.tangent.defined()) t = x.tangent * y.value;
            if (y.tangent.defined()) t = t.defined() ? t.addcmul_(x.value, y.tangent) : x.value * y.tangent;
            return t;
          })};
}

Recorded multiply(const Recorded& x, const Recorded& y) { return {x.value * y.value, x.tape, -1}; }

Counted multiply(const Counted& x, const Counted& y) {
  detail::keep(x);
  detail::keep(y);
  return detail::counted(x.meter, x.shape);
}

at::Tensor scale(const at::Tensor& x, double factor) { return x * factor; }

Dual scale(const Dual& x, double factor) {
  return {x.value * factor,
          detail::tangent_of([&] { return x.tangent.defined() ? x.tangent * factor : at::Tensor(); })};
}

Recorded scale(const Recorded& x, double factor) { return {x.value * factor, x.tape, -1}; }

Counted scale(const Counted& x, double) { return detail::counted(x.meter, x.shape); }

at::Tensor constant(const at::Tensor& x, const at::Tensor&) { return x; }
Dual constant(const at::Tensor& x, const Dual&) { return {x, {}}; }
Recorded constant(const at::Tensor& x, const Recorded& like) { return {x, like.tape, -1}; }
Counted constant(const at::Tensor& x, const Counted& like) {
  return {x.sizes().vec(), like.meter->allocate(static_cast<double>(x.numel()), true), like.meter, -1};
}

at::TensorOptions options_of(const at::Tensor& x) { return x.options().requires_grad(false); }
at::TensorOptions options_of(const Dual& x) { return options_of(x.value); }
at::TensorOptions options_of(const Recorded& x) { return options_of(x.value); }
at::TensorOptions options_of(const Counted&) { return at::kFloat; }

}  // namespace taugrid::autodiff
