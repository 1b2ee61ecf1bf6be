// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/metrics/linearity.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/require.hpp"

namespace taugrid::metrics {
namespace {

at::Tensor cosine_of(const at::Tensor& x_y, const at::Tensor& x_x, const at::Tensor& y_y) {
  return x_y / (x_x.sqrt() * y_y.sqrt());
}

at::Tensor length(const at::Tensor& square) { return square.clamp_min(0).sqrt(); }

}  // namespace

at::Tensor inner_products(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  require(a.defined() && b.defined() && a.is_floating_point() && b.is_floating_point(),
          "features are not floating point");
  require(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(2), "features are ",
          a.sizes(), " and ", b.sizes(), ", expected [N, K, M] and [N, L, M]");
  return at::bmm(a.to(at::kDouble), b.to(at::kDouble).transpose(1, 2));
}

Linearity linearity(const at::Tensor& mixed, const at::Tensor& frame, double alpha) {
  const at::NoGradGuard no_grad;
  require(mixed.defined() && mixed.scalar_type() == at::kDouble && mixed.dim() > 0 && mixed.size(-1) == 4,
          "inner products of the mixed model are no float64 [..., 4]");
  require(frame.defined() && frame.scalar_type() == at::kDouble && frame.dim() == mixed.dim() + 1 &&
              frame.size(-1) == 3 && frame.size(-2) == 3 &&
              frame.sizes().slice(0, frame.sizes().size() - 2) ==
                  mixed.sizes().slice(0, mixed.sizes().size() - 1),
          "inner products of the pair are no float64 [..., 3, 3] of as many examples");
  const auto of = [&](int k) { return mixed.select(-1, k); };
  const auto in = [&](int k, int l) { return frame.select(-2, k).select(-1, l); };
  const double beta = 1 - alpha;
  const auto a_a = in(0, 0), a_b = in(0, 1), b_b = in(1, 1), a_0 = in(0, 2), b_0 = in(1, 2), f0_f0 = in(2, 2);
  const auto c_0 = of(2), c_c = of(3);
  // w = αa + (1−α)b is v − f0.
  const auto c_w = alpha * of(0) + beta * of(1);
  const auto w_w = alpha * alpha * a_a + 2 * alpha * beta * a_b + beta * beta * b_b;
  const auto w_0 = alpha * a_0 + beta * b_0;
  const auto u_v = c_w + c_0 + w_0 + f0_f0, u_u = c_c + 2 * c_0 + f0_f0, v_v = w_w + 2 * w_0 + f0_f0;
  const auto fi_fj = a_b + a_0 + b_0 + f0_f0, fi_fi = a_a + 2 * a_0 + f0_f0, fj_fj = b_b + 2 * b_0 + f0_f0;
  return {cosine_of(u_v, u_u, v_v),
          u_v / v_v,
          cosine_of(fi_fj, fi_fi, fj_fj),
          cosine_of(c_w, c_c, w_w),
          c_w / w_w,
          cosine_of(a_b, a_a, b_b),
          length(c_c - 2 * c_w + w_w) / length(a_a - 2 * a_b + b_b)};
}

Linearity average_linearity(const at::Tensor& models, const at::Tensor& whole) {
  const at::NoGradGuard no_grad;
  require(models.defined() && models.scalar_type() == at::kDouble && models.dim() > 1 &&
              models.size(-1) == 3 && models.size(-2) > 1,
          "inner products of the models are no float64 [..., k, 3] with k > 1");
  require(whole.defined() && whole.scalar_type() == at::kDouble && whole.dim() == models.dim() &&
              whole.size(-1) == 3 && whole.size(-2) == 3 &&
              whole.sizes().slice(0, whole.sizes().size() - 2) ==
                  models.sizes().slice(0, models.sizes().size() - 2),
          "inner products of the averages are no float64 [..., 3, 3] of as many examples");
  const auto in = [&](int k, int l) { return whole.select(-2, k).select(-1, l); };
  const auto w_w = in(0, 0), c_w = in(0, 1), w_0 = in(0, 2), c_c = in(1, 1), c_0 = in(1, 2), f0_f0 = in(2, 2);
  const auto a_a = models.select(-1, 0), a_0 = models.select(-1, 1), c_a = models.select(-1, 2);
  const auto u_v = c_w + c_0 + w_0 + f0_f0, u_u = c_c + 2 * c_0 + f0_f0, v_v = w_w + 2 * w_0 + f0_f0;
  const auto of_each = [](const at::Tensor& x) { return x.unsqueeze(-1); };
  const auto u_f = c_a + a_0 + of_each(c_0 + f0_f0), f_f = a_a + 2 * a_0 + of_each(f0_f0);
  const auto k = static_cast<double>(models.size(-2));
  const auto apart = (a_a.sum(-1) - k * w_w) * (2 / (k - 1));
  return {cosine_of(u_v, u_u, v_v),
          u_v / v_v,
          cosine_of(u_f, of_each(u_u), f_f).mean(-1),
          cosine_of(c_w, c_c, w_w),
          c_w / w_w,
          cosine_of(c_a, of_each(c_c), a_a).mean(-1),
          length(c_c - 2 * c_w + w_w) / length(apart)};
}

at::Tensor summary(const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  require(values.defined() && values.scalar_type() == at::kDouble && values.dim() > 0 && values.size(-1) > 0,
          "values are no float64 [..., N] with N > 0");
  const auto n = values.size(-1);
  const auto mean = values.mean(-1);
  const auto deviation = ((values - mean.unsqueeze(-1)).square().sum(-1) / static_cast<double>(n - 1)).sqrt();
  const auto sorted = std::get<0>(values.sort(-1));
  const auto quartile = [&](int k) {
    const double at = 0.25 * k * static_cast<double>(n - 1);
    const auto below = static_cast<std::int64_t>(at), above = std::min(below + 1, n - 1);
    const auto low = sorted.select(-1, below), high = sorted.select(-1, above);
    return at::where(mean.isnan(), mean, low + (high - low) * (at - static_cast<double>(below)));
  };
  return at::stack({mean, deviation, quartile(1), quartile(2), quartile(3)}, -1);
}

at::Tensor histogram(const at::Tensor& values, const std::vector<double>& edges) {
  const at::NoGradGuard no_grad;
  require(values.defined() && values.scalar_type() == at::kDouble && values.dim() > 0,
          "values are no float64 [..., N]");
  require(edges.size() >= 2 &&
              std::adjacent_find(edges.begin(), edges.end(), std::greater_equal<>()) == edges.end(),
          "edges do not ascend");
  const auto bins = static_cast<std::int64_t>(edges.size()) - 1;
  const auto inner =
      at::tensor(at::ArrayRef<double>(edges).slice(1, edges.size() - 2), at::kDouble).to(values.device());
  const auto bin = at::bucketize(values.contiguous(), inner, /*out_int32=*/false, /*right=*/true);
  auto shape = values.sizes().vec();
  shape.back() = bins;
  return at::zeros(shape, bin.options()).scatter_add_(-1, bin, values.isnan().logical_not().to(at::kLong));
}

}  // namespace taugrid::metrics
