// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tangent/ntk.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace taugrid::tangent {
namespace {

using autodiff::Use;

at::Tensor tokens(const at::Tensor& x) { return x.contiguous().view({x.size(0), -1, x.size(-1)}); }

/// Σ_{t,s} ⟨dy_it, dy_js⟩⟨x_it, x_js⟩: the same inner products without the gradients themselves, cheaper
/// where a weight matrix is large and tokens are few.
void add_by_factors(at::Tensor& kernel, const at::Tensor& dy, const at::Tensor& x, Rows rows,
                    std::int64_t workspace) {
  const auto n = dy.size(0), t = dy.size(1), r = rows.end - rows.begin;
  const auto dy_rows = dy.slice(0, rows.begin, rows.end).reshape({r * t, -1});
  const auto x_rows = x.slice(0, rows.begin, rows.end).reshape({r * t, -1});
  const auto step = std::max<std::int64_t>(1, workspace / (2 * r * t * t));
  for (std::int64_t j = 0; j < n; j += step) {
    const auto m = std::min(step, n - j);
    auto product = at::mm(dy_rows, dy.slice(0, j, j + m).reshape({m * t, -1}).t());
    product.mul_(at::mm(x_rows, x.slice(0, j, j + m).reshape({m * t, -1}).t()));
    kernel.slice(1, j, j + m).add_(product.view({r, t, m, t}).sum({1, 3}));
  }
}

void add_use(at::Tensor& kernel, const Use& use, const at::Tensor& gradient, Rows rows,
             std::int64_t workspace) {
  const auto n = gradient.size(0), r = rows.end - rows.begin;
  if (use.form == Use::Form::weight) {
    const auto dy = tokens(gradient), x = tokens(use.input);
    const auto t = dy.size(1), out = dy.size(2), in = x.size(2);
    const auto direct = n * t * out * in + n * r * out * in;  // multiplications
    const auto by_factors = n * r * t * t * (out + in);
    if (by_factors < direct || n * out * in > workspace) {
      add_by_factors(kernel, dy, x, rows, workspace);
      return;
    }
  }
  const auto g = autodiff::per_sample_gradient(use, gradient);
  kernel.addmm_(g.slice(0, rows.begin, rows.end), g.t());
}

}  // namespace

at::Tensor ntk_gram(const autodiff::Layout& layout, const autodiff::Function<autodiff::Recorded>& logits,
                    const at::Tensor& theta, const std::vector<std::int64_t>& which, Rows rows,
                    std::int64_t workspace) {
  autodiff::Recording recording;
  autodiff::record(layout, logits, theta, recording);
  const auto& output = recording.output;  // [N, classes]
  const auto n = output.size(0);
  auto gram = at::zeros({static_cast<std::int64_t>(which.size()), rows.end - rows.begin, n},
                        output.options().requires_grad(false));
  for (std::size_t c = 0; c < which.size(); ++c) {
    auto cotangent = at::zeros_like(output).detach();
    cotangent.select(1, which[c]).fill_(1);
    const auto gradients = autodiff::output_gradients(recording, cotangent, c + 1 < which.size());
    const at::NoGradGuard no_grad;
    auto kernel = gram.select(0, static_cast<std::int64_t>(c));
    for (const auto& use : recording.tape.uses) {
      if (gradients[use.output].defined()) add_use(kernel, use, gradients[use.output], rows, workspace);
    }
  }
  return gram;
}

at::Tensor local_energy(const at::Tensor& kernel) {
  const auto [u, s, vh] = at::linalg_svd(kernel.to(at::kDouble), /*full_matrices=*/false);
  const auto kept = s > s.max() * 1e-6;
  return (vh.square() * kept.unsqueeze(1)).sum(0);
}

}  // namespace taugrid::tangent
