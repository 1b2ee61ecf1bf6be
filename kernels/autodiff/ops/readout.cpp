// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Logits of constant rows.
#include <ATen/ATen.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {

using detail::tangent_of;

at::Tensor cosine_logits(const at::Tensor& z, const at::Tensor& head, double scale) {
  return at::mm(z, head.t()) * scale;
}

Dual cosine_logits(const Dual& z, const at::Tensor& head, double scale) {
  return {cosine_logits(z.value, head, scale), tangent_of([&] {
            return z.tangent.defined() ? cosine_logits(z.tangent, head, scale) : at::Tensor();
          })};
}

Recorded cosine_logits(const Recorded& z, const at::Tensor& head, double scale) {
  return {cosine_logits(z.value, head, scale), z.tape, -1};
}

Counted cosine_logits(const Counted& z, const at::Tensor& head, double) {
  auto y = detail::counted(z.meter, {z.shape[0], head.size(0)});
  y.meter->multiply(2 * detail::numbers(z) * static_cast<double>(head.size(0)));
  y.meter->pass(detail::numbers(y), detail::numbers(y));
  return y;
}

at::Tensor affine_logits(const at::Tensor& z, const at::Tensor& head, const at::Tensor& bias) {
  return at::addmm(bias, z, head.t());
}

Dual affine_logits(const Dual& z, const at::Tensor& head, const at::Tensor& bias) {
  return {affine_logits(z.value, head, bias), tangent_of([&] {
            return z.tangent.defined() ? at::mm(z.tangent, head.t()) : at::Tensor();
          })};
}

Recorded affine_logits(const Recorded& z, const at::Tensor& head, const at::Tensor& bias) {
  return {affine_logits(z.value, head, bias), z.tape, -1};
}

Counted affine_logits(const Counted& z, const at::Tensor& head, const at::Tensor&) {
  auto y = detail::counted(z.meter, {z.shape[0], head.size(0)});
  y.meter->multiply(2 * detail::numbers(z) * static_cast<double>(head.size(0)));
  return y;
}

}  // namespace taugrid::autodiff
