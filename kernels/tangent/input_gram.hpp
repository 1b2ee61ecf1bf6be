// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The Gram matrix of what a linear layer takes in, G = XᵀX, X [rows, in] having a row a token.
#pragma once

#include <ATen/core/Tensor.h>

namespace taugrid::tangent {

/// G [in, in] += XᵀX, G_ij += Σ_k X_ki X_kj, for j ≥ i; left of the diagonal G has no meaning. G is
/// contiguous, X may have any strides. For float32 on the host tiles of an own kernel; for others four panels
/// of ATen's. Its bits do not depend on the number of threads.
void add_input_gram(at::Tensor& gram, const at::Tensor& x);

/// Makes G whole: G_ji = G_ij for j > i.
void mirror_gram(at::Tensor& gram);

}  // namespace taugrid::tangent
