// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/detail/aten.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "kernels/full_products.hpp"

namespace taugrid::weights::detail {
namespace {

/// Numbers `begin` … of each vector: [T, size].
at::Tensor stacked(std::span<const at::Tensor> vectors, std::int64_t begin, std::int64_t size) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& vector : vectors) rows.push_back(vector.narrow(0, begin, size));
  return at::stack(rows);
}

}  // namespace

void combine_aten(const at::Tensor& theta0, std::span<const at::Tensor> tau, const at::Tensor& alpha,
                  at::Tensor& out) {
  // A block at a time, so that few of the vectors are held twice.
  constexpr std::int64_t block = std::int64_t{1} << 24;
  const at::NoGradGuard no_grad;
  const FullProducts full;
  if (tau.empty() || out.size(0) == 1) {  // a product would read each vector a second time for one row
    out.copy_(theta0.expand_as(out));
    for (std::size_t t = 0; t < tau.size(); ++t)
      out[0].add_(tau[t], alpha[0][static_cast<std::int64_t>(t)].item<double>());
    return;
  }
  const auto coefficients = alpha.to(theta0.options());
  for (std::int64_t begin = 0; begin < theta0.numel(); begin += block) {
    const auto size = std::min(block, theta0.numel() - begin);
    auto columns = out.narrow(1, begin, size);
    at::addmm_out(columns, theta0.narrow(0, begin, size), coefficients, stacked(tau, begin, size));
  }
}

at::Tensor inner_products_aten(const at::Tensor& a, std::span<const at::Tensor> vectors) {
  constexpr std::int64_t block = std::int64_t{1} << 22;  // which double takes twice
  const at::NoGradGuard no_grad;
  auto sum = at::zeros({std::ssize(vectors)}, a.options().dtype(at::kDouble));
  for (std::int64_t begin = 0; begin < a.numel() && !vectors.empty(); begin += block) {
    const auto size = std::min(block, a.numel() - begin);
    sum.addmv_(stacked(vectors, begin, size).to(at::kDouble), a.narrow(0, begin, size).to(at::kDouble));
  }
  return sum;
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
    const at::Tensor matrix = stacked(vectors, begin, size).to(at::kDouble);
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
