// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/subtract.hpp"

#include <bit>

namespace taugrid::weights {

bool subtract(const float* tuned, const float* start, float* out, std::int64_t n) {
  constexpr std::uint32_t exponent = 0x7f800000;  // all set: NaN or infinity (IEEE 754)
  std::uint32_t special = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    out[i] = tuned[i] - start[i];
    special |= (std::bit_cast<std::uint32_t>(out[i]) & exponent) == exponent ? 1U : 0U;
  }
  return special == 0;
}

}  // namespace taugrid::weights
