// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The largest eigenvalue in absolute value of a symmetric operator known by its products alone, such as a
// Hessian: the local smoothness of a loss (paper 2, section 3) and λ_max (paper 5).
//
// Vectors keep their dtype; norms, inner products and all coefficients are double (taugrid::weights, so
// Kokkos must be initialised): summed in float32, the norm of 3·10⁸ parameters is wrong by a tenth and more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace taugrid::spectral {

/// v [n] → A·v [n], same dtype and device; A symmetric. It may return v itself or a buffer that it uses
/// again.
using LinearOperator = std::function<at::Tensor(const at::Tensor&)>;

struct EigenOptions {
  double tolerance = 1e-3;          ///< stop at residual ≤ tolerance
  std::int64_t max_products = 200;  ///< stop after so many products with A, at least 1
  std::int64_t max_basis = 24;      ///< vectors that Lanczos holds, at least 2; n at most are used
  std::uint64_t seed = 0;           ///< of the start vector, the same on every device
};

struct EigenResult {
  double value;           ///< λ
  double residual;        ///< ‖Av − λv‖/|λ|: an eigenvalue lies within residual·|λ| of λ
  std::int64_t products;  ///< with A
  bool converged;         ///< residual ≤ tolerance
  at::Tensor vector;      ///< v [n], of unit length
};

/// v ← Av/‖Av‖, λ = ⟨v, Av⟩. Three vectors of memory. Slow where |λ₂|/|λ₁| is near 1, and without end where
/// λ₂ = −λ₁.
///
/// `like` [n], n ≥ 1, float32 or float64, gives length, dtype and device; its values are not used.
/// The zero operator has λ = 0 with residual 0.
/// \throws std::invalid_argument for other `like` or options; std::runtime_error where a product has another
/// shape or dtype, or is not finite, with the product's number.
EigenResult power_iteration(const LinearOperator& apply, const at::Tensor& like,
                            const EigenOptions& options = {});

/// Lanczos with full reorthogonalisation and thick restart (K. Wu and H. Simon, "Thick-restart Lanczos method
/// for large symmetric eigenvalue problems", SIAM J. Matrix Anal. Appl. 22, 2000). max_basis + 2 vectors of
/// memory.
///
/// The residual comes from the recurrence, |β·sₘ|/|λ| for Ritz coordinates s, with no further product, and is
/// never reported below the rounding of the dtype. Arguments and errors as for power_iteration.
///
/// `near` [n] as `like`, or undefined, is a vector that is known to lie near the leading eigenvectors, such
/// as ∇L where A is the Hessian of L (G. Gur-Ari, D. Roberts and E. Dyer, "Gradient descent happens in a tiny
/// subspace", arXiv:1812.04754, 2018). The start is the sum of its direction and of a random one, equally
/// long, so that an eigenvector across `near` keeps a part of about 1/√(2n). A `near` of zero changes
/// nothing. Throws std::invalid_argument for another shape, dtype or device.
EigenResult lanczos(const LinearOperator& apply, const at::Tensor& like, const EigenOptions& options = {},
                    at::Tensor near = {});

}  // namespace taugrid::spectral
