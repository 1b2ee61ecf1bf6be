// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/subtract.hpp"

#include <algorithm>
#include <bit>

#include "kernels/lanes.hpp"

namespace taugrid::weights {

bool subtract(const float* tuned, const float* start, float* out, std::int64_t n) {
  constexpr std::uint32_t exponent = 0x7f800000;  // all set: NaN or infinity (IEEE 754)
  // Models are read piece by piece, one after another, and a processor does not look beyond a page of its own
  // accord.
  constexpr std::int64_t ahead = 1024;
  Words special = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    __builtin_prefetch(tuned + std::min(i + ahead, n - 1));
    const Lanes tau = read(tuned + i) - read(start + i);
    write(out + i, tau);
    special |= reinterpret_cast<Words>((reinterpret_cast<Words>(tau) & exponent) == exponent);
  }
  bool finite = true;
  for (std::int64_t l = 0; l < lanes; ++l) finite &= special[l] == 0;
  for (; i < n; ++i) {
    out[i] = tuned[i] - start[i];
    finite &= (std::bit_cast<std::uint32_t>(out[i]) & exponent) != exponent;
  }
  return finite;
}

void fetch(const void* begin, std::size_t bytes) {
  constexpr std::size_t line = 64, lines = 64;
  const auto* from = static_cast<const char*>(begin);
  for (std::size_t i = 0; i < std::min(bytes, line * lines); i += line) __builtin_prefetch(from + i);
}

}  // namespace taugrid::weights
