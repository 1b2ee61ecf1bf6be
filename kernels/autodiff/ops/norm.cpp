// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Layer norm, RMS norm, and rows of unit length. The Jacobian of a normalised row is symmetric, so layer
// norm's tangent is ATen's fused backward kernel applied to the tangent.
#include <ATen/ATen.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {

using detail::tangent_of;

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps) {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, eps);
}

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

Recorded layer_norm(const Recorded& x, const Recorded& weight, const Recorded& bias, double eps) {
  Recorded y{layer_norm(x.value, weight.value, bias.value, eps), x.tape, -1};
  const auto output = detail::keep(*y.tape, y.value);
  const auto normed = layer_norm(x.value.detach(), {}, {}, eps);
  y.tape->uses.push_back({Use::Form::scale, weight.block, normed, {}, output});
  y.tape->uses.push_back({Use::Form::sum, bias.block, {}, {}, output});
  return y;
}

Counted layer_norm(const Counted& x, const Counted&, const Counted&, double) {
  auto y = detail::counted(x.meter, x.shape);
  detail::keep(x);
  y.meter->keep(2 * detail::rows(x));
  y.meter->pass(0, detail::numbers(x));
  y.meter->record(y.storage);
  y.meter->record(detail::numbers(x));
  return y;
}

namespace {

/// x̂ = x/√(mean of squares + eps)
at::Tensor at_unit_mean_square(const at::Tensor& x, const at::Tensor& rms) { return x / rms; }
/// √(mean of squares + eps), its sum in float32 at least.
at::Tensor rms_of(const at::Tensor& x, double eps) {
  const auto wide = at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x;
  return (wide.square().mean(-1, true) + eps).sqrt().to(x.scalar_type());
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at_unit_mean_square(x, rms_of(x, eps)) * weight;
}

Dual rms_norm(const Dual& x, const Dual& weight, double eps) {
  const auto rms = rms_of(x.value, eps);
  const auto normed = at_unit_mean_square(x.value, rms);
  Dual y{normed * weight.value, {}};
  y.tangent = tangent_of([&] {
    at::Tensor t;
    if (weight.tangent.defined()) t = normed * weight.tangent;
    if (x.tangent.defined()) {  // w ⊙ (dx − x̂ mean(x̂ ⊙ dx))/√(mean of squares + eps)
      const auto dx_hat = x.tangent.addcmul(normed, (normed * x.tangent).mean(-1, true), -1).div_(rms);
      t = t.defined() ? t.addcmul_(dx_hat, weight.value) : dx_hat.mul(weight.value);
    }
    return t;
  });
  return y;
}

Recorded rms_norm(const Recorded& x, const Recorded& weight, double eps) {
  const auto normed = at_unit_mean_square(x.value, rms_of(x.value, eps));
  Recorded y{normed * weight.value, x.tape, -1};
  y.tape->uses.push_back(
      {Use::Form::scale, weight.block, normed.detach(), {}, detail::keep(*y.tape, y.value)});
  return y;
}

Counted rms_norm(const Counted& x, const Counted&, double) {
  auto y = detail::counted(x.meter, x.shape);
  detail::keep(x);
  y.meter->keep(detail::numbers(x) + detail::rows(x));  // x̂, and its length
  y.meter->pass(detail::numbers(x), 2 * detail::numbers(x));
  y.meter->record(y.storage);
  return y;
}

at::Tensor normalise_rows(const at::Tensor& z) {
  return z / at::linalg_vector_norm(z, 2, at::IntArrayRef{-1}, true);
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

Recorded normalise_rows(const Recorded& z) { return {normalise_rows(z.value), z.tape, -1}; }

Counted normalise_rows(const Counted& z) {
  detail::keep(z);
  return detail::counted(z.meter, z.shape);
}

}  // namespace taugrid::autodiff
