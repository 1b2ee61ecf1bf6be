// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Methods on the singular vectors of matrices Δ_t [m,n] (on_matrices.hpp), r = min(m,n); embeddings count as
// matrices. In the core space r is the rank of all tasks together, and of a task no more triples are taken
// than its own rank.
//
//   tsv_m    the leading ⌊r/T⌋ triples of each task; Û and V̂ the polar factors of the concatenated singular
//            vectors: Δ = Û Σ V̂ᵀ (Gargiulo et al. 2025, algorithm 1)
//   iso_c    Σ Δ_t = U Σ Vᵀ, Δ = σ̄ U Vᵀ, σ̄ the mean singular value (Marczak et al. 2025, algorithm 1)
//   iso_cts  the leading k triples of Σ Δ_t, and the leading (r − k)/T of each (I − U_k U_kᵀ) Δ_t,
//            concatenated, made orthogonal by their polar factors, with the mean of their singular values
//            (algorithm 2)
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "suite/merging/matrices/on_matrices.hpp"

namespace taugrid::merging {
namespace {

/// U diag(s) Vᵀ of orthogonalised factors: u [m,k], s [k], vh [k,n].
at::Tensor orthogonalised(const Matrices& u, const at::Tensor& s, const Matrices& vh) {
  return at::mm(polar(at::cat(u, 1)).factor * s, polar(at::cat(vh, 0)).factor);
}

at::Tensor tsv_m(const Deltas& deltas) {
  auto delta = deltas.at(0);
  const auto rank = std::min(delta.size(0), delta.size(1)) / static_cast<std::int64_t>(deltas.count);
  // Published code leaves nothing of matrices with fewer singular vectors than tasks.
  if (rank == 0) return at::zeros_like(delta);
  Matrices u, s, vh;
  for (std::size_t t = 0; t < deltas.count; ++t) {
    if (t > 0) delta = deltas.at(t);
    const auto [left, values, right] = leading(deltas, delta, rank);
    u.push_back(left);
    s.push_back(values);
    vh.push_back(right);
  }
  return orthogonalised(u, at::cat(s), vh);
}

at::Tensor iso_c(const Deltas& deltas) {
  const auto of_sum = polar(sum_of(deltas));
  return of_sum.factor * of_sum.values.mean();
}

at::Tensor iso_cts(const Deltas& deltas, double common) {
  const auto sum = sum_of(deltas);
  const auto r = std::min(sum.size(0), sum.size(1)), tasks = static_cast<std::int64_t>(deltas.count);
  const auto specific = static_cast<double>(r - static_cast<std::int64_t>(static_cast<double>(r) * common));
  // nearbyint: half to even, as Python's round. Never more than there are.
  const auto each =
      std::min(static_cast<std::int64_t>(std::nearbyint(specific / static_cast<double>(tasks))), r / tasks);
  const auto k = r - each * tasks;
  const auto [common_u, common_s, common_vh] = leading({deltas.count, deltas.at}, sum, k);
  Matrices u, s, vh;
  for (std::size_t t = 0; t < deltas.count && each > 0; ++t) {
    const auto delta = deltas.at(t);
    const auto [left, values, right] =
        leading(deltas, delta - at::mm(common_u, at::mm(common_u.t(), delta)), each);
    u.push_back(left);
    s.push_back(values);
    vh.push_back(right);
  }
  u.push_back(common_u);
  s.push_back(common_s);
  vh.push_back(common_vh);
  const auto values = at::cat(s);
  return orthogonalised(u, at::full_like(values, values.mean().item<double>()), vh);
}

/// Every task's matrix is factored, beside the sum or the result.
double flops_of_all(double tasks, double m, double n) { return (tasks + 2) * nearest_flops(m, n); }

std::shared_ptr<const VectorMethod> make_tsv_m(config::Section parameters) {
  return std::make_shared<OnMatrices>(parameters, tsv_m, OnMatrices::Traits{.flops = flops_of_all});
}

std::shared_ptr<const VectorMethod> make_iso_c(config::Section parameters) {
  return std::make_shared<OnMatrices>(
      parameters, iso_c,
      OnMatrices::Traits{.flops = [](double, double m, double n) { return nearest_flops(m, n); }});
}

std::shared_ptr<const VectorMethod> make_iso_cts(config::Section parameters) {
  const auto common =
      parameters.real("common_space", "The common space's share of the singular vectors", 0.8, {0, 1});
  return std::make_shared<OnMatrices>(
      parameters, [common](const Deltas& deltas) { return iso_cts(deltas, common); },
      OnMatrices::Traits{.flops = flops_of_all});
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    tsv_m, 100, make_tsv_m, nullptr,
    "Task singular vectors (Gargiulo et al. 2025): of each task's matrix the leading singular "
    "triples, made orthogonal among tasks")
TAUGRID_MERGING_METHOD(
    iso_c, 110, make_iso_c, nullptr,
    "Isotropic merging (Marczak et al. 2025): the summed matrix with its mean singular value")
TAUGRID_MERGING_METHOD(iso_cts, 120, make_iso_cts, nullptr,
                       "Isotropic merging in a common space and one for each task (Marczak et al. 2025)")
