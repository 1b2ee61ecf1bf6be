// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tangent/detail/row_products.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "kernels/lanes.hpp"

namespace taugrid::tangent::detail {
namespace {

constexpr int tile = many_registers ? 4 : 2;  // tile² sums, and 2·tile numbers, which registers hold

float sum_of(const Lanes& x) {
  float sum = 0;
  for (int l = 0; l < lanes; ++l) sum += x[l];
  return sum;
}

/// Adds ⟨a_i, b_j⟩ over numbers begin … end to sums [tile, tile].
void multiply(const float* const (&a)[tile], const float* const (&b)[tile], std::int64_t begin,
              std::int64_t end, float (&sums)[tile][tile]) {
  Lanes all[tile][tile] = {};
  auto k = begin;
  for (; k + lanes <= end; k += lanes) {
    Lanes right[tile];
    for (int j = 0; j < tile; ++j) right[j] = read(b[j] + k);
    for (int i = 0; i < tile; ++i) {
      const Lanes left = read(a[i] + k);
      for (int j = 0; j < tile; ++j) all[i][j] += left * right[j];
    }
  }
  for (int i = 0; i < tile; ++i)
    for (int j = 0; j < tile; ++j) {
      float sum = sum_of(all[i][j]);
      for (auto rest = k; rest < end; ++rest) sum += a[i][rest] * b[j][rest];
      sums[i][j] = sum;
    }
}

}  // namespace

void add_row_products(at::Tensor& kernel, const at::Tensor& gradients, const Window& window) {
  const auto size = gradients.size(1), n = window.n;
  if (!gradients.is_cpu() || gradients.scalar_type() != at::kFloat) {
    window.each_piece([&](std::int64_t i, std::int64_t end, std::int64_t j) {
      kernel.slice(0, i - window.begin, end - window.begin)
          .slice(1, j)
          .addmm_(gradients.slice(0, i, end), gradients.slice(0, j).t());
    });
    return;
  }
  const auto contiguous = gradients.contiguous();
  const float* rows = contiguous.const_data_ptr<float>();
  float* out = kernel.mutable_data_ptr<float>();
  const auto down = kernel.stride(0), along = kernel.stride(1);
  // Stretches of all rows stay in the second cache while their products are taken.
  const auto stretch = std::max<std::int64_t>(lanes, (std::int64_t{1} << 17) / n / lanes * lanes);
  at::parallel_for(0, (window.rows() + tile - 1) / tile, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t begin = 0; begin < size; begin += stretch)
      for (auto block = first; block < last; ++block) {
        const auto i = window.begin + block * tile;
        for (auto j = window.symmetric() ? i : 0; j < n; j += tile) {
          const float *a[tile], *b[tile];  // a row beyond the last is the last once more
          for (int k = 0; k < tile; ++k) {
            a[k] = rows + std::min(i + k, window.end - 1) * size;
            b[k] = rows + std::min(j + k, n - 1) * size;
          }
          float sums[tile][tile];
          multiply(a, b, begin, std::min(size, begin + stretch), sums);
          for (auto r = i; r < std::min(i + tile, window.end); ++r)
            for (auto c = j; c < std::min(j + tile, n); ++c)
              out[(r - window.begin) * down + c * along] += sums[r - i][c - j];
        }
      }
  });
}

}  // namespace taugrid::tangent::detail
