// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// M vectors in place of T, found from their Gram matrix G = VᵀV alone: bases S = VB, columns of B [T,M], and
// the vectors again as V̂ = V(BW + R), W [M,T]; R [T,T] is what is added to each, such as the mean. After the
// later code of paper 2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace taugrid::spectral {

/// float64 on the host.
struct LowRank {
  at::Tensor encoder;  ///< B [T,M]
  at::Tensor decoder;  ///< W [M,T]
  at::Tensor rest;     ///< R [T,T]
};

/// Principal components of the centred vectors, times their singular values: V C v for the leading M
/// eigenvectors v of C G C, C = I − 11ᵀ/T; W = their entries, R the mean. Of v and −v the one whose first
/// entry of at least half the largest magnitude is positive. M from 1 to T; std::invalid_argument otherwise.
LowRank principal_components(const at::Tensor& gram, std::int64_t m);

struct AutoencoderSettings {
  std::int64_t steps = 6000;
  double learning_rate = 0.01, temperature = 5, weight_decay = 1e-6;
};

/// Minimises ‖V − VBW‖²_F / T² with B = softmax(A / temperature) over the tasks, by Adam (its weight decay
/// added to the gradient) on A, which begins as normal numbers by `seed`, and W, which begins at 0.
LowRank autoencoder(const at::Tensor& gram, std::int64_t m, const AutoencoderSettings& settings,
                    std::uint64_t seed);

/// ‖V − V̂‖²_F / ‖V‖²_F.
double relative_error(const at::Tensor& gram, const LowRank& factors);

}  // namespace taugrid::spectral
