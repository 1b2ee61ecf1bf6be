// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which points a model classifies rightly, a bit a point: from these the error of a difference or a ratio of
// two models on the same points follows (McNemar's, or a paired bootstrap).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "suite/models/readout.hpp"

namespace taugrid::study {

/// Bytes of the bits of n points.
constexpr std::int64_t bytes_of_bits(std::int64_t n) { return (n + 7) / 8; }

/// What one model answers, or, with a first dimension, several.
struct Outcome {
  at::Tensor accuracy;  ///< float64 [], of the points that there are
  at::Tensor
      correct;  ///< uint8 [bytes_of_bits(points asked for)], as metrics::packed_bits; further bits are 0
};

/// The readout's logits and the labels of the first n of `points` points, n being less where the split is
/// smaller.
Outcome outcome(const models::Readout& readout, const at::Tensor& logits, const at::Tensor& labels,
                std::int64_t points);

/// The mean training loss (Readout::loss()), float64 [], on the logits' device.
at::Tensor mean_loss(const models::Readout& readout, const at::Tensor& logits, const at::Tensor& labels);

}  // namespace taugrid::study
