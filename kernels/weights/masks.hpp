// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Masks of task vectors: the places where a vector keeps its largest numbers, and how those of two vectors
// lie to each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/weights/stretches.hpp"

namespace taugrid::weights {

/// ties-merging keeps the magnitudes of at least the k-th largest, of n numbers and a density: k =
/// ⌊density·n⌋ + 1, at most n.
std::int64_t ties_rank(double density, std::int64_t n);

/// Counts the places that two vectors both keep, and those of these where their signs differ. A vector keeps
/// numbers other than zero of at least its cut's magnitude (Yadav et al. 2023, section 3: the sign conflicts
/// of trimmed vectors). Counts are exact, whatever the order of the stretches.
class MaskCount {
 public:
  explicit MaskCount(std::span<const float> cuts);
  /// Numbers of the same places of each vector: one-dimensional, contiguous, float32 and on the host, of
  /// equal length. \throws std::invalid_argument
  void add(const Stretches& tau);
  /// float64 [2,T,T], symmetric: places that both keep (the diagonal: that the vector keeps), and those with
  /// unlike signs. Counts of several ranks add up.
  at::Tensor counts() const;

 private:
  std::vector<std::uint32_t> least_;  // bits from which a magnitude is kept
  std::vector<std::uint64_t> kept_, negative_;
  std::vector<std::int64_t> both_, unlike_;  // of pairs i ≤ j
};

}  // namespace taugrid::weights
