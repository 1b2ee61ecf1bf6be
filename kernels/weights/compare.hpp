// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace taugrid::weights {

/// What numbers of a, b and d = b − a say: sums in double, of float32's differences.
struct Compared {
  double aa = 0, ad = 0, dd = 0;  ///< ⟨a,a⟩, ⟨a,d⟩, ⟨d,d⟩
  double base = 0;                ///< ⟨θ0,θ0⟩, where there is one
  float largest = 0;              ///< max |d|
  std::int64_t equal = 0;         ///< places where d is 0
  std::int64_t opposed = 0;       ///< places of other signs, none of them 0
  bool finite = true;             ///< a and b, everywhere; else only `base` holds
};

/// Compares a = θ_A − θ0 and b = θ_B − θ0 (θ0 null: θ themselves) on n numbers, in one pass over memory that
/// may be files' own pages.
Compared compare(const float* a, const float* b, const float* start, std::int64_t n);
/// The same of bfloat16, the upper halves of float32.
Compared compare(const std::uint16_t* a, const std::uint16_t* b, const std::uint16_t* start, std::int64_t n);

}  // namespace taugrid::weights
