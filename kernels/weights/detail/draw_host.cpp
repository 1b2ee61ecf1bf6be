// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/detail/draw_host.hpp"

#include <algorithm>
#include <cmath>

namespace taugrid::weights::detail {
namespace {

/// Steele, Lea, Flood 2014 (SplitMix64).
std::uint64_t split_mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

bool stays(const Keys& keys, std::uint32_t low, std::uint32_t below) {
  const auto leading = leading_draws(keys, low / 4) << (24 - 8 * (low % 4)) & leading_bits;
  return leading == (below & leading_bits) ? (leading | further_draws(keys, low)) < below : leading < below;
}

/// Places of one key.
template <bool Further>
void drop(const Keys& keys, std::uint32_t low, std::uint32_t below, float scale, const float* x,
          std::int64_t n, float* out) {
  const auto drop_at = [&](std::int64_t i) {
    const float kept = x[i] * scale;
    out[i] = stays(keys, low + static_cast<std::uint32_t>(i), below) ? kept : 0.0F;
  };
  std::int64_t i = 0;
  for (; i < n && (low + i) % 4 != 0; ++i) drop_at(i);
  for (; i + strip <= n; i += strip) {
    const auto draws = draw_strip<Further>(keys, low + static_cast<std::uint32_t>(i), below);
    for (int q = 0; q < 4; ++q) {
      const auto at = i + q * lanes;
      write(out + at, dropped(draws.quarter[q], below, read(x + at), scale));
    }
  }
  for (; i < n; ++i) drop_at(i);
}

}  // namespace

Keys keys_of(const Draw& draw, std::int64_t place) {
  const auto high = static_cast<std::uint64_t>(place / places_a_key);
  const auto key = split_mixed(split_mixed(draw.seed) ^
                               split_mixed((static_cast<std::uint64_t>(draw.vector) << 32) + high));
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

void drop(const Draw& draw, std::int64_t begin, const float* x, std::int64_t n, float* out) {
  if (draw.all_stay()) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * draw.scale;
    return;
  }
  const auto below = static_cast<std::uint32_t>(draw.below);
  const auto drop_some = (below & ~leading_bits) != 0 ? drop<true> : drop<false>;
  for (std::int64_t from = 0; from < n;) {
    const auto place = begin + from, low = place % places_a_key;
    const auto m = std::min(n - from, places_a_key - low);
    drop_some(keys_of(draw, place), static_cast<std::uint32_t>(low), below, draw.scale, x + from, m,
              out + from);
    from += m;
  }
}

std::uint64_t draws_below(double probability) {
  return static_cast<std::uint64_t>(std::llround(std::ldexp(probability, 32)));
}

void drop_each(const Draw& draw, std::int64_t begin, const float* x, const double* p, bool rescales,
               std::int64_t n, float* out) {
  Keys keys = {};
  for (std::int64_t i = 0; i < n; ++i) {
    const auto low = static_cast<std::uint32_t>((begin + i) % places_a_key);
    if (i == 0 || low == 0) keys = keys_of(draw, begin + i);
    const auto below = draws_below(p[i]);
    const bool is_kept = below >> 32 != 0 || stays(keys, low, static_cast<std::uint32_t>(below));
    out[i] = is_kept ? x[i] * (rescales ? static_cast<float>(1 / p[i]) : 1) : 0;
  }
}

}  // namespace taugrid::weights::detail
