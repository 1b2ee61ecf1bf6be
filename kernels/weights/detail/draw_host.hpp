// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// DARE's draws: whether number i of vector t stays depends on (seed, t, i) alone. A hash of 32 bits gives
// four neighbouring numbers eight bits each, the leading ones of a number of 32 bits that stays where it is
// less than `below`. Whoever draws exactly the leading bits of `below` draws the other 24 as well, so that
// the probability is below/2³².
#pragma once

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <utility>

#include "kernels/lanes.hpp"
#include "kernels/weights/detail/merge_host.hpp"

namespace taugrid::weights::detail {

/// How many places one hash has the keys of; beyond them are other keys.
constexpr std::int64_t places_a_key = std::int64_t{1} << 32;
constexpr std::uint32_t leading_bits = 0xff000000U;

/// What draws of a vector are made from, at places of one multiple of places_a_key.
struct Keys {
  std::uint32_t first, second;
};
Keys keys_of(const Draw& draw, std::int64_t place);

/// A bijection of 32 bits in which each bit depends on all (C. Wellons, "hash prospector", 2018-2022).
template <class Bits>
inline Bits mixed(Bits x) {
  x = (x ^ (x >> 16)) * 0x21f0aaadU;
  x = (x ^ (x >> 15)) * 0x735a2d97U;
  return x ^ (x >> 15);
}

template <class Bits>
inline Bits leading_draws(const Keys& keys, const Bits& word) {
  return mixed<Bits>(mixed<Bits>(word ^ keys.first) ^ keys.second);
}

/// The other 24 bits, in the low ones.
template <class Bits>
inline Bits further_draws(const Keys& keys, const Bits& place) {
  return mixed<Bits>(mixed<Bits>(place ^ keys.second) ^ keys.first) >> 8;
}

/// Whether any lane is below the limit.
inline bool any_below(const Words& x, std::uint32_t limit) {
#if defined(__AVX512F__)
  return _mm512_cmplt_epu32_mask(reinterpret_cast<const __m512i&>(x),
                                 _mm512_set1_epi32(static_cast<int>(limit))) != 0;
#else
  bool any = false;
  for (std::int64_t l = 0; l < lanes; ++l) any |= x[l] < limit;
  return any;
#endif
}

/// Numbers of a strip, drawn side by side. It begins at a multiple of four, the numbers of one hash.
constexpr int strip = 4 * static_cast<int>(lanes);

/// The draws of a strip, `lanes` numbers a quarter: those less than `below` stay.
struct StripDraws {
  Words quarter[4];
};

/// Lane l has the hash of number quarter·lanes + l, whose own byte is moved to the top. What is left below it
/// decides nothing where the byte is not that of the limit.
template <int quarter, int... l>
inline Words own_bytes(const Words& hashes, std::integer_sequence<int, l...>) {
  const Words left = {(24U - 8U * (l % 4))...};
  return __builtin_shufflevector(hashes, hashes, ((quarter * static_cast<int>(lanes) + l) / 4)...) << left;
}

/// Draws at places low … of their keys. `Further` where `below` has more than leading bits.
template <bool Further>
inline StripDraws draw_strip(const Keys& keys, std::uint32_t low, std::uint32_t below) {
  constexpr auto all = std::make_integer_sequence<int, static_cast<int>(lanes)>{};
  const auto count = []<int... l>(std::integer_sequence<int, l...>) {
    return Words{static_cast<std::uint32_t>(l)...};
  }
  (all);
  const Words hashes = leading_draws<Words>(keys, count + low / 4);
  StripDraws draws = {{own_bytes<0>(hashes, all), own_bytes<1>(hashes, all), own_bytes<2>(hashes, all),
                       own_bytes<3>(hashes, all)}};
  if constexpr (Further) {
    Words least = draws.quarter[0] - (below & leading_bits);
    for (int q = 1; q < 4; ++q) {
      const Words over = draws.quarter[q] - (below & leading_bits);
      least = over < least ? over : least;
    }
    if (any_below(least, ~leading_bits + 1U)) {  // a byte in 256 is that of the limit
      for (std::uint32_t q = 0; q < 4; ++q) {
        const Words place = count + (low + q * static_cast<std::uint32_t>(lanes));
        draws.quarter[q] = (draws.quarter[q] & leading_bits) | further_draws<Words>(keys, place);
      }
    }
  }
  return draws;
}

/// y·scale of the numbers that stay, 0 of the others.
inline Lanes dropped(const Words& draws, std::uint32_t below, const Lanes& y, float scale) {
  const Lanes kept = y * scale;
  return draws < below ? kept : Lanes{};
}

}  // namespace taugrid::weights::detail
