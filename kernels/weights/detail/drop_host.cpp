// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/weights/detail/merge_host.hpp"

namespace taugrid::weights::detail {
namespace {

/// A bijection of 32 bits in which each bit depends on all (C. Wellons, "hash prospector", 2018-2022).
inline std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21f0aaadU;
  x = (x ^ (x >> 15)) * 0x735a2d97U;
  return x ^ (x >> 15);
}

/// Steele, Lea, Flood 2014 (SplitMix64).
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

// A hash gives four numbers eight bits each. Who draws exactly the leading eight of `below` draws again, of
// the other 24, so that the probability is below/2³².
void drop(const Draw& draw, std::int64_t begin, const float* x, std::int64_t n, float* out) {
  static_assert(std::endian::native == std::endian::little, "a word's first byte is its lowest");
  constexpr std::int64_t word = std::int64_t{1} << 32;
  if (draw.below >= static_cast<std::uint64_t>(word)) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * draw.scale;
    return;
  }
  const auto leading = static_cast<std::uint8_t>(draw.below >> 24);
  const auto further = static_cast<std::uint32_t>(draw.below & 0xffffffU);
  constexpr int piece = 1024;
  std::array<std::uint32_t, piece / 4 + 1> words;
  for (std::int64_t from = 0; from < n;) {
    const auto place = begin + from, high = place / word;
    const auto low = static_cast<std::uint32_t>(place % word), first_word = low / 4, skip = low % 4;
    const auto m = static_cast<int>(std::min({n - from, word - place % word, std::int64_t{piece} - skip}));
    const auto key = mixed(mixed(draw.seed) ^ mixed((static_cast<std::uint64_t>(draw.vector) << 32) +
                                                    static_cast<std::uint64_t>(high)));
    const auto first = static_cast<std::uint32_t>(key), second = static_cast<std::uint32_t>(key >> 32);
    const auto count = (static_cast<std::uint32_t>(m) + skip + 3) / 4;
    for (std::uint32_t i = 0; i < count; ++i) words[i] = mixed(mixed((first_word + i) ^ first) ^ second);
    const auto* drawn = reinterpret_cast<const std::uint8_t*>(words.data()) + skip;
    const float* y = x + from;
    float* to = out + from;
    for (int i = 0; i < m; ++i) {
      // Multiplied always: under a condition, what may trap is not vectorised.
      const float kept = y[i] * draw.scale;
      to[i] = drawn[i] < leading ? kept : 0.0F;
    }
    from += m;
    if (further == 0) continue;
    int equal = 0;
    for (int i = 0; i < m; ++i) equal += drawn[i] == leading ? 1 : 0;
    for (int i = 0; i < m && equal > 0; ++i) {
      if (drawn[i] != leading) continue;
      --equal;
      const auto again = mixed(mixed((low + static_cast<std::uint32_t>(i)) ^ second) ^ first) >> 8;
      if (again < further) to[i] = y[i] * draw.scale;
    }
  }
}

}  // namespace taugrid::weights::detail
