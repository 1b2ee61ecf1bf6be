// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Magnitudes by their bits, whose order is theirs (IEEE 754), of one number and of a register's.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/lanes.hpp"

namespace taugrid::weights::detail {

constexpr std::uint32_t magnitude = 0x7fffffff, infinity = 0x7f800000;
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x) & magnitude; }
inline Words bits_of(const Lanes& x) { return __builtin_bit_cast(Words, x) & magnitude; }

/// Keeps the largest bits of magnitudes: those of NaN and infinity are above all others.
inline void see(Words& largest, const Lanes& x) {
  const Words bits = bits_of(x);
  largest = bits > largest ? bits : largest;
}
inline void see(Words& largest, float x) { largest[0] = std::max<std::uint32_t>(largest[0], bits_of(x)); }
inline bool are_finite(const Words& largest) {
  bool finite = true;
  for (std::int64_t l = 0; l < lanes; ++l) finite &= largest[l] < infinity;
  return finite;
}

}  // namespace taugrid::weights::detail
