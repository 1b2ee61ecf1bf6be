// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Centred arithmetic with vectors of reduced rank (CART, Choi et al. 2024, "Revisiting weight averaging for
// model merging"): of the matrices Δ_t [m,n] of layers (on_matrices.hpp),
//
//   Δ = Δ̄ + s Σ_t SVD_k(Δ_t − Δ̄),   Δ̄ = Σ_t Δ_t / T,   k = max(1, ⌊share · min(m,n)⌋),
//
// SVD_k the nearest matrix of rank k. With every rank the sum is 0, and Δ the mean, as it is with two tasks,
// which are as far from their mean on either side.
//
// The authors' code has share 0.12 and s = 2 for eight tasks, 0.16 and 1.5 for 14, 0.32 and 1.9 for 20; the
// paper finds shares about 0.08 best.
#include <ATen/ATen.h>

#include <algorithm>

#include "suite/merging/matrices/on_matrices.hpp"

namespace taugrid::merging {
namespace {

at::Tensor cart(const Deltas& deltas, double share, double scale) {
  const auto mean = sum_of(deltas).div_(static_cast<double>(deltas.count));
  const auto ranks = static_cast<double>(std::min(mean.size(0), mean.size(1)));
  const auto k = std::max<std::int64_t>(1, static_cast<std::int64_t>(share * ranks));
  auto merged = mean.clone();
  for (std::size_t t = 0; t < deltas.count; ++t)
    merged.add_(nearest_of_rank(deltas.at(t).sub_(mean), k), scale);
  return merged;
}

std::shared_ptr<const VectorMethod> make_cart(config::Section parameters) {
  const auto share =
      parameters.real("rank_share",
                      "The share of each centred matrix' singular vectors that stay: 0.12 as in the authors' "
                      "code for eight tasks",
                      0.12, config::some_share);
  const auto scale = parameters.real("centred_scale",
                                     "s of the centred vectors' sum, which is added to the mean: 2 as in the "
                                     "authors' code for eight tasks",
                                     2, {-1e3, 1e3});
  return std::make_shared<OnMatrices>(
      parameters, [share, scale](const Deltas& deltas) { return cart(deltas, share, scale); },
      OnMatrices::Traits{
          .flops = [](double tasks, double m, double n) { return tasks * nearest_flops(m, n); },
          .takes_low_rank = true,
          .exclude = names_of_no_layer()});
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(cart, 124, make_cart, nullptr,
                       "CART (Choi et al. 2024): the mean, and what the leading singular vectors of each "
                       "task's distance from it "
                       "have",
                       false)
