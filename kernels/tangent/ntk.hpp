// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The neural tangent kernel K(x, x') = J(x) J(x')ᵀ of one logit, and the local energy of its eigenfunctions
// (paper 1, section 6.1 and appendix A).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/autodiff/tape.hpp"
#include "kernels/range.hpp"

namespace taugrid::tangent {

/// Numbers that a Gram matrix's work space has at most, unless said otherwise.
constexpr std::int64_t ntk_workspace = std::int64_t{1} << 27;

/// Gram matrices [C, rows.count, N] at θ [P] of `logits`, which gives [N, classes], in the numbers of that
/// output: entry [c, i, j] is the inner product of the gradients of logit `which[c]` at samples rows.begin +
/// i and j. One backward pass a logit serves all samples. The kernel is a sum over parameter blocks, and a
/// block that the model uses more than once has the sum of its uses' gradients, cross terms included. No [N,
/// P] Jacobian is ever held: work space is at most about `workspace` numbers. Gradients are in the trained
/// blocks (`trained`: a flag a block, or empty for all).
at::Tensor ntk_gram(const autodiff::Layout& layout, const autodiff::Function<autodiff::Recorded>& logits,
                    const at::Tensor& theta, const std::vector<std::int64_t>& which, Range rows,
                    std::int64_t workspace = ntk_workspace, const std::vector<bool>& trained = {});

/// Numbers that ntk_gram() holds at once beside the tape and the kernels, for `rows` of `n` samples and
/// `logits` logits: of a model whose matrices one sample uses as `uses` say (Meter::matrix_uses(), of a
/// recording pass).
double ntk_work_space(const autodiff::Layout& layout, const std::vector<autodiff::Meter::MatrixUse>& uses,
                      std::int64_t rows, std::int64_t n, std::int64_t logits,
                      std::int64_t workspace = ntk_workspace);

/// Singular vectors whose singular value is no more than this part of the largest are noise.
constexpr double energy_cut_off = 1e-6;

struct LocalEnergy {
  at::Tensor energy;  ///< float64 [m]
  std::int64_t rank;  ///< singular vectors that the cut-off kept: the energy's sum
};

/// E(x) = Σ_ρ φ_ρ(x)² (paper 1, section 6.1) of the right singular vectors φ_ρ of K [n, m], n ≤ m, without
/// those that are noise.
LocalEnergy local_energy(const at::Tensor& kernel);

}  // namespace taugrid::tangent
