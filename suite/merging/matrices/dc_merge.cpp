// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// DC-Merge (Zhang et al. 2026, "Improving model merging with directional consistency", and the authors'
// code): of the matrices Δ_t [m,n] (on_matrices.hpp), r = min(m,n), k = ⌊r/T⌋,
//
//   U_t S_t V_tᵀ   the k leading triples of Δ_t, whose values may be smoothed (their sum shared out
//                  equally, or linearly from first to last in the ratio min(rho, σ_1/σ_k));
//   Û, V̂           the polar factors of [U_1 … U_T] and [V_1 … V_T], the space that covers all tasks;
//   M_t            Ûᵀ U_t S_t V_tᵀ V̂ [Tk,Tk], of which the ⌊density · r²⌋ largest numbers stay, with their
//                  equals;
//   M              the mean at each place of those that have the sign of Σ_t M_t, and 0 outside of the
//                  blocks of each task's own k rows and columns;
//   Δ = Û M V̂ᵀ.
//
// Whole models are merged without smoothing, adapters with it. A third code (merge-and-rebase) sums M_t where
// the authors take TIES; theirs is here.
#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>

#include "suite/merging/matrices/on_matrices.hpp"

namespace taugrid::merging {
namespace {

struct DirectionalConsistency {
  double density;
  std::string smoothing;
  double rho;
};

at::Tensor smoothed(const at::Tensor& values, const DirectionalConsistency& settings) {
  const auto k = values.size(0);
  if (settings.smoothing == "none" || k == 0) return values;
  const double ratio =
      settings.smoothing == "average" ? 1 : std::min(settings.rho, (values[0] / values[-1]).item<double>());
  const auto shares = at::linspace(ratio, 1, k, at::kDouble);
  return shares * (values.sum() / shares.sum());
}

/// Zero but for the `count` numbers that are largest, and their equals.
at::Tensor largest(const at::Tensor& matrix, std::int64_t count) {
  const auto sizes = matrix.abs();
  const auto least = std::get<0>(sizes.flatten().topk(std::min(count, matrix.numel()))).min();
  return at::where(sizes.ge(least), matrix, 0.0);
}

at::Tensor dc_merge(const Deltas& deltas, const DirectionalConsistency& settings) {
  auto delta = deltas.at(0);
  const auto r = std::min(delta.size(0), delta.size(1));
  const auto k = r / static_cast<std::int64_t>(deltas.count);
  Matrices u, s, vh;
  std::int64_t all = 0;
  for (std::size_t t = 0; t < deltas.count && k > 0; ++t) {
    if (t > 0) delta = deltas.at(t);
    const auto [left, values, right] = leading(deltas, delta, k);
    u.push_back(left);
    s.push_back(smoothed(values, settings));
    vh.push_back(right);
    all += values.size(0);
  }
  if (all == 0) return at::zeros_like(delta);  // published code leaves nothing of more tasks than directions
  const auto cover_u = polar(at::cat(u, 1)).factor, cover_vh = polar(at::cat(vh, 0)).factor;
  const auto kept =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(settings.density * static_cast<double>(r * r)));
  const auto in_cover = [&](std::size_t t) {
    return largest(at::mm(at::mm(cover_u.t(), u[t]) * s[t], at::mm(vh[t], cover_vh.t())), kept);
  };
  auto sign = at::zeros({all, all}, at::kDouble);
  for (std::size_t t = 0; t < deltas.count; ++t) sign.add_(in_cover(t));
  sign.sign_();
  auto sum = at::zeros_like(sign), agree = at::zeros_like(sign);
  for (std::size_t t = 0; t < deltas.count; ++t) {
    const auto numbers = in_cover(t);
    const auto agrees = at::logical_and(numbers.sign().eq(sign), sign.ne(0)).to(at::kDouble);
    sum.addcmul_(numbers, agrees);
    agree.add_(agrees);
  }
  sum.div_(agree.clamp_min(1));
  auto merged = at::zeros_like(delta);
  std::int64_t first = 0;
  for (const auto& values : s) {
    const auto rank = values.size(0);
    merged.addmm_(at::mm(cover_u.narrow(1, first, rank), sum.narrow(0, first, rank).narrow(1, first, rank)),
                  cover_vh.narrow(0, first, rank));
    first += rank;
  }
  return merged;
}

std::shared_ptr<const VectorMethod> make_dc_merge(config::Section parameters) {
  DirectionalConsistency settings{};
  settings.density =
      parameters.real("density", "The share of numbers in the covering space that stay of each task", 1e-3,
                      config::some_share);
  settings.smoothing = parameters.word(
      "smoothing",
      "What becomes of a task's singular values: none, as the paper has whole models; average: all are their "
      "mean; linear: they fall linearly (adapters)",
      "none", {"none", "average", "linear"});
  settings.rho = parameters.real(
      "rho", "The first singular value over the last, at most, where smoothing is linear", 5, {1, 1e6});
  return std::make_shared<OnMatrices>(
      parameters, [settings](const Deltas& deltas) { return dc_merge(deltas, settings); },
      OnMatrices::Traits{.flops =
                             [](double tasks, double m, double n) {
                               const double shorter = std::min(m, n);
                               return (tasks + 2) * nearest_flops(m, n) +
                                      4 * tasks * shorter * shorter * shorter;
                             },
                         .held =
                             [](double, double m, double n) {
                               const double shorter = std::min(m, n);
                               return 5 * m * n + 5 * shorter * shorter;
                             }});
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(dc_merge, 126, make_dc_merge, nullptr,
                       "DC-Merge (Zhang et al. 2026): each task's leading singular triples in one orthogonal "
                       "space that covers all, "
                       "where the signs of the largest numbers are elected")
