// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Cross-task linearity (paper 5): for models θᵢ, θⱼ of one start θ0 and one layer's feature f(θ) of an
// example,
//   u = f(αθᵢ + (1−α)θⱼ),   v = αf(θᵢ) + (1−α)f(θⱼ),
// and linearity holds as far as u = v. All that is asked of them follows from inner products, so that
// features are compared as they are made, and never kept. Products are taken of differences from f0 = f(θ0),
// which all models share: ‖u − v‖ would be lost in the rounding of products of the features themselves.
//
// float64, on the features' device. No gradient is recorded. std::invalid_argument for shapes or dtypes other
// than those given.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace taugrid::metrics {

/// ⟨a[n,k], b[n,l]⟩ of floating-point a [N,K,M], b [N,L,M]: [N,K,L], products and sums in double.
at::Tensor inner_products(const at::Tensor& a, const at::Tensor& b);

struct Linearity {
  at::Tensor cosine;          ///< cos(u, v)
  at::Tensor coefficient;     ///< ⟨u, v⟩/‖v‖²: 1 where linearity holds
  at::Tensor baseline;        ///< cos(f(θᵢ), f(θⱼ)), which models that hardly differ have near 1, too
  at::Tensor centred_cosine;  ///< cos(u − f0, v − f0): without what all models share
  at::Tensor centred_coefficient;  ///< ⟨u − f0, v − f0⟩/‖v − f0‖²
  at::Tensor centred_baseline;     ///< cos(f(θᵢ) − f0, f(θⱼ) − f0)
  at::Tensor error;                ///< ‖u − v‖/‖f(θᵢ) − f(θⱼ)‖
};

/// From inner products of a = f(θᵢ) − f0, b = f(θⱼ) − f0, f0 and c = u − f0. `mixed` […,4]: ⟨c,a⟩, ⟨c,b⟩,
/// ⟨c,f0⟩, ⟨c,c⟩. `frame` […,3,3]: those of (a, b, f0) with each other. Each result […]; NaN where it divides
/// by zero.
Linearity linearity(const at::Tensor& mixed, const at::Tensor& frame, double alpha);

/// The same of k > 1 models' average (equation 1): u = f(1/k Σ θₖ), v = 1/k Σ f(θₖ). From inner products of
/// aₖ = f(θₖ) − f0, their mean w, f0 and c = u − f0: `models` […,k,3] ⟨aₖ,aₖ⟩, ⟨aₖ,f0⟩, ⟨aₖ,c⟩; `whole`
/// […,3,3] those of (w, c, f0) with each other. The baselines are means over the models of cos(u, f(θₖ)), as
/// the paper has them here, and of cos(c, aₖ); the error's divisor is the root mean square of ‖f(θᵢ) − f(θⱼ)‖
/// over pairs of the models, which of two is linearity()'s.
Linearity average_linearity(const at::Tensor& models, const at::Tensor& whole);

/// Mean, standard deviation (of a sample: N − 1), quartiles (linear between neighbours) over the last
/// dimension of […,N], N > 0: […,5]. NaN where any value is; the deviation of one value is NaN.
at::Tensor summary(const at::Tensor& values);

/// How many of the last dimension's values lie in each bin [edge, next edge): […,N] → int64 […,B], B + 1
/// ascending edges. The first bin has what lies below it, too, the last one what lies above; NaN is in none.
at::Tensor histogram(const at::Tensor& values, const std::vector<double>& edges);

}  // namespace taugrid::metrics
