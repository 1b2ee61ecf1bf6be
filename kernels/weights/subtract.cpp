// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/subtract.hpp"

#include <algorithm>
#include <bit>

namespace taugrid::weights {

bool subtract(const float* tuned, const float* start, float* out, std::int64_t n) {
  constexpr std::uint32_t exponent = 0x7f800000;  // all set: NaN or infinity (IEEE 754)
  // Models are read piece by piece, one after another, and a processor does not look beyond a page of its own
  // accord.
  constexpr std::int64_t line = 16, lines = 64, ahead = line * lines;
  std::uint32_t special = 0;
  for (std::int64_t begin = 0; begin < n; begin += line * 4) {
    const auto end = std::min(n, begin + line * 4);
    for (auto i = begin + ahead; i < std::min(n, end + ahead); i += line) __builtin_prefetch(tuned + i);
    for (auto i = begin; i < end; ++i) {
      out[i] = tuned[i] - start[i];
      special |= (std::bit_cast<std::uint32_t>(out[i]) & exponent) == exponent ? 1U : 0U;
    }
  }
  return special == 0;
}

void fetch(const void* begin, std::size_t bytes) {
  constexpr std::size_t line = 64, lines = 64;
  const auto* from = static_cast<const char*>(begin);
  for (std::size_t i = 0; i < std::min(bytes, line * lines); i += line) __builtin_prefetch(from + i);
}

}  // namespace taugrid::weights
