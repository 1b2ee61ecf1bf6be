// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Neighbouring numbers of float32 that one register of this processor holds. For sums that no compiler may
// reorder by itself; where it may, plain loops do.
#pragma once

#include <cstdint>

namespace taugrid {

#if defined(__AVX512F__)
inline constexpr std::int64_t lanes = 16;
inline constexpr bool many_registers = true;  ///< 32, and 16 else
#else
#if defined(__AVX__)
inline constexpr std::int64_t lanes = 8;
#else
inline constexpr std::int64_t lanes = 4;
#endif
inline constexpr bool many_registers = false;
#endif

/// What widths of by_columns() are a multiple of.
inline constexpr std::int64_t lanes_at_once = 16;

using Lanes = float __attribute__((vector_size(lanes * sizeof(float))));
using LanesInMemory =
    float __attribute__((vector_size(lanes * sizeof(float)), aligned(alignof(float)), may_alias));

/// As many unsigned numbers.
using Words = std::uint32_t __attribute__((vector_size(lanes * sizeof(std::uint32_t))));

inline Lanes read(const float* from) { return *reinterpret_cast<const LanesInMemory*>(from); }
inline void write(float* to, const Lanes& x) { *reinterpret_cast<LanesInMemory*>(to) = x; }

/// out [rows, columns·lanes] = Σ_k a(r, k) b(k): a is `down` floats from row to row and `along` from k to k +
/// 1, b `b_step`. As many sums as registers hold, whichever shape they have.
template <int rows, int columns>
inline void product_sums(const float* a, std::int64_t down, std::int64_t along, const float* b,
                         std::int64_t b_step, std::int64_t count, float* out, std::int64_t out_step) {
  Lanes sum[rows][columns] = {};
  for (std::int64_t k = 0; k < count; ++k) {
    Lanes right[columns];
    for (int c = 0; c < columns; ++c) right[c] = read(b + k * b_step + c * lanes);
    for (int r = 0; r < rows; ++r) {
      const float left = a[r * down + k * along];
      for (int c = 0; c < columns; ++c) sum[r][c] += left * right[c];
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) write(out + r * out_step + c * lanes, sum[r][c]);
}

/// Calls f with so many columns of `lanes` as divide `width`, a multiple of lanes_at_once, and as many rows
/// as registers hold sums.
template <class F>
void by_columns(std::int64_t width, const F& f) {
  if constexpr (many_registers) {
    if (width % (4 * lanes) == 0) return f.template operator()<4, 4>();
    if (width % (2 * lanes) == 0) return f.template operator()<2, 8>();
    f.template operator()<1, 16>();
  } else {
    f.template operator()<2, 4>();
  }
}

}  // namespace taugrid
