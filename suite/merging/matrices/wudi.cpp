// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// WUDI-Merging (Cheng et al. 2025, "Whoever started the interference should end it"): of the
// matrices Δ_t [m,n] (on_matrices.hpp) of linear layers, the Θ that minimises
//
//   Σ_t ‖(Θ − Δ_t) Δ_tᵀ‖² / ‖Δ_t‖²,   which is where Θ C = D,
//
//   C = Σ_t Δ_tᵀ Δ_t / ‖Δ_t‖² = V Λ Vᵀ [n,n],   D = Σ_t Δ_t Δ_tᵀ Δ_t / ‖Δ_t‖² [m,n].
//
// The authors take 300 steps of Adam from Θ0 = Σ_t Δ_t, and more of them end worse. Gradient flow from there
// has a closed form (SWUDI and its soft form, in MLLMerging's code), with f(λ) = 1 − e^(−λt):
//
//   Θ = Θ0 + (D V Λ⁻¹ − Θ0 V) f(Λ) Vᵀ = Θ0 + (D − Θ0 C) V (f(Λ) / Λ) Vᵀ.
//
// f is 0 beyond the leading ⌈share · n⌉ directions, where Θ0 stays. The minimum has f = 1. In directions
// that C does not have no task has any row, so Θ0 and D are 0 there: every solution is 0, the
// pseudo-inverse's and Θ0's. Vectors without length have no term.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "suite/merging/matrices/on_matrices.hpp"

namespace taugrid::merging {
namespace {

struct WudiSolution {
  bool is_minimum;
  double time, share;
};

at::Tensor wudi(const Deltas& deltas, const WudiSolution& solution) {
  auto theta = at::zeros_like(deltas.at(0));
  const auto n = theta.size(1);
  auto c = at::zeros({n, n}, at::kDouble), d = at::zeros_like(theta);
  for (std::size_t t = 0; t < deltas.count; ++t) {
    const auto delta = deltas.at(t);
    const auto square = delta.square().sum().item<double>();
    if (square == 0) continue;
    theta.add_(delta);
    const auto gram = at::mm(delta.t(), delta).div_(square);
    c.add_(gram);
    d.addmm_(delta, gram);
  }
  d.sub_(at::mm(theta, c));
  const auto [ascending, vectors] = at::linalg_eigh(c);
  const auto lambda = ascending.clamp_min(0);
  // Rounding of float32 numbers may have made smaller singular values.
  const double least = rounding_share(theta.size(0), n);
  const auto there = lambda.gt(least * least * lambda[-1]);
  const auto filter = solution.is_minimum ? at::ones_like(lambda) : at::expm1(lambda * -solution.time).neg();
  auto factor = at::where(there, filter / lambda, 0.0);
  const auto kept = static_cast<std::int64_t>(std::ceil(solution.share * static_cast<double>(n)));
  factor.narrow(0, 0, n - kept).zero_();
  return theta.addmm_(at::mm(d, vectors) * factor, vectors.t());
}

std::shared_ptr<const VectorMethod> make_wudi(config::Section parameters) {
  WudiSolution solution{};
  solution.is_minimum =
      parameters.word("solution",
                      "flow: gradient flow from the sum of the vectors, which ends early as the authors' 300 "
                      "steps of Adam do; minimum: the least interference itself",
                      "flow", {"flow", "minimum"}) == "minimum";
  solution.time = parameters.real(
      "time", "t of the flow: of a direction with the eigenvalue λ a share 1 − e^(−λt) of the way is gone",
      300, {0, 1e12});
  solution.share = parameters.real("rank_share",
                                   "The share of directions that are changed, the largest λ first; in the "
                                   "others the sum stays (SWUDI: 0.65 "
                                   "with time = 1300)",
                                   1, config::some_share);
  return std::make_shared<OnMatrices>(
      parameters, [solution](const Deltas& deltas) { return wudi(deltas, solution); },
      OnMatrices::Traits{.flops = [](double tasks, double m,
                                     double n) { return 4 * (tasks + 1) * m * n * n + eigh_flops(n); },
                         .held = [](double, double m, double n) { return 4 * m * n + 4 * n * n; },
                         .takes_low_rank = true,
                         .exclude = names_of_no_layer()});
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(wudi, 122, make_wudi, nullptr,
                       "WUDI-Merging (Cheng et al. 2025): the matrix that interferes least with each task's "
                       "own, by the rows of its "
                       "vector")
