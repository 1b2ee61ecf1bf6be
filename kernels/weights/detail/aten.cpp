// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/detail/aten.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

namespace taugrid::weights::detail {

void combine_aten(const at::Tensor& theta0, std::span<const at::Tensor> tau, const at::Tensor& alpha,
                  at::Tensor& out) {
  const at::NoGradGuard no_grad;
  const at::Tensor coefficients = alpha.to(at::kDouble);
  const auto coefficient = coefficients.accessor<double, 2>();
  for (std::int64_t k = 0; k < out.size(0); ++k) {
    at::Tensor row = out.select(0, k);
    row.copy_(theta0);
    for (std::size_t t = 0; t < tau.size(); ++t) {
      row.add_(tau[t], coefficient[k][static_cast<std::int64_t>(t)]);
    }
  }
}

at::Tensor gram_aten(std::span<const at::Tensor> vectors) {
  // A block in double at a time; in strips, because one product of two short, million long factors keeps a
  // small part of a GPU busy.
  constexpr std::int64_t block = std::int64_t{1} << 20, strip = std::int64_t{1} << 12;
  const at::NoGradGuard no_grad;
  const auto tasks = static_cast<std::int64_t>(vectors.size());
  const std::int64_t length = vectors.front().numel();
  at::Tensor gram = at::zeros({tasks, tasks}, vectors.front().options().dtype(at::kDouble));
  for (std::int64_t begin = 0; begin < length; begin += block) {
    const std::int64_t size = std::min(block, length - begin);
    std::vector<at::Tensor> rows;
    for (const at::Tensor& vector : vectors) rows.push_back(vector.narrow(0, begin, size));
    const at::Tensor matrix = at::stack(rows).to(at::kDouble);
    const std::int64_t even = size / strip * strip;
    if (even > 0) {
      const auto strips = matrix.narrow(1, 0, even).view({tasks, -1, strip}).transpose(0, 1);
      gram.add_(at::bmm(strips, strips.transpose(1, 2)).sum(0));
    }
    const auto rest = matrix.narrow(1, even, size - even);
    gram.addmm_(rest, rest.t());
  }
  return gram.cpu();
}

}  // namespace taugrid::weights::detail
