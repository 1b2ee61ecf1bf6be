// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A tile of every vector goes through all steps of a merge while it stays in the first cache; each step is a
// loop over neighbouring numbers that compilers vectorise.
#include "kernels/weights/detail/merge_host.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace taugrid::weights::detail {
namespace {

constexpr std::uint32_t magnitude = 0x7fffffff;
constexpr int trailing = 20, leading_bins = 1 << (31 - trailing);

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x) & magnitude; }

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

/// Calls see(low bits) for each magnitude whose leading bits are `bin`.
template <class See>
void each_in_bin(const float* x, std::int64_t n, std::uint32_t bin, const See& see) {
  constexpr std::int64_t strip = 16;
  const auto look = [&](float number) {
    const auto bits = bits_of(number);
    if (bits >> trailing == bin) see(bits & ((1U << trailing) - 1));
  };
  std::int64_t i = 0;
  for (; i + strip <= n; i += strip) {  // most have none
    int inside = 0;
    for (std::int64_t j = i; j < i + strip; ++j) inside += bits_of(x[j]) >> trailing == bin ? 1 : 0;
    if (inside == 0) continue;
    for (std::int64_t j = i; j < i + strip; ++j) look(x[j]);
  }
  for (; i < n; ++i) look(x[i]);
}

constexpr int tile = 1024;
using Tile = std::array<float, tile>;

struct Sums {
  alignas(64) Tile all, positive, negative, for_positive, for_negative;
};

/// Calls see(i, x) for each number as trimming leaves it; loops over neighbours, which compilers vectorise.
template <class See>
void each_trimmed(const Term& term, std::int64_t begin, const float* x, int n, const See& see) {
  if (term.before == 0) {
    for (int i = 0; i < n; ++i) see(i, x[i]);
    return;
  }
  const auto part = static_cast<int>(std::clamp<std::int64_t>(term.limit - begin, 0, n));
  const auto keep = [&](int from, int to, std::uint32_t least) {
    for (int i = from; i < to; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(x[i]);
      see(i, std::bit_cast<float>((bits & magnitude) >= least ? bits : 0U));
    }
  };
  keep(0, part, term.before);
  keep(part, n, term.after);
}

void add(const Term& term, std::int64_t begin, const float* x, int n, Sums& sums) {
  const float weight = term.weight;
  float* all = sums.all.data();
  each_trimmed(term, begin, x, n, [=](int i, float kept) { all[i] += weight * kept; });
}

void add_and_count(const Term& term, std::int64_t begin, const float* x, int n, Sums& sums) {
  const float weight = term.weight;
  float *all = sums.all.data(), *voters = sums.for_positive.data();
  each_trimmed(term, begin, x, n, [=](int i, float kept) {
    all[i] += weight * kept;
    voters[i] += kept != 0.0F ? weight : 0.0F;
  });
}

void add_by_sign(const Term& term, std::int64_t begin, const float* x, int n, Sums& sums) {
  const float weight = term.weight;
  each_trimmed(term, begin, x, n, [weight, &sums](int i, float kept) {
    const float y = weight * kept;
    sums.all[i] += y;
    sums.positive[i] += y > 0.0F ? y : 0.0F;
    sums.negative[i] += y < 0.0F ? y : 0.0F;
    sums.for_positive[i] += y > 0.0F ? weight : 0.0F;
    sums.for_negative[i] += y < 0.0F ? weight : 0.0F;
  });
}

/// The result without an election.
void divide(const Rule& rule, const Sums& sums, int n, float* out) {
  if (!rule.by_voters) {
    for (int i = 0; i < n; ++i) out[i] = sums.all[i] / rule.divisor;
    return;
  }
  for (int i = 0; i < n; ++i) {
    const float weights = sums.for_positive[i], mean = sums.all[i] / (weights != 0.0F ? weights : 1.0F);
    out[i] = weights != 0.0F ? mean : 0.0F;
  }
}

void elect(const Rule& rule, const Sums& sums, int n, float* out, Count& count) {
  const float when_zero = rule.vote == Vote::positive ? 1.0F : rule.vote == Vote::negative ? -1.0F : 0.0F;
  const bool by_voters = rule.by_voters;
  const float divisor = rule.divisor;
  int undecided = 0, balance = 0;
  for (int i = 0; i < n; ++i) {  // without branches: signs are as chance has them
    const float all = sums.all[i], positive = sums.positive[i], negative = sums.negative[i];
    const float for_positive = sums.for_positive[i], for_negative = sums.for_negative[i];
    const bool open = (all == 0.0F) & ((positive != 0.0F) | (negative != 0.0F));
    undecided += open ? 1 : 0;
    balance += (all > 0.0F ? 1 : 0) - (all < 0.0F ? 1 : 0);
    const float sign = all == 0.0F ? when_zero : all;
    const float sum = sign > 0.0F ? positive : negative;
    const float weights = sign > 0.0F ? for_positive : for_negative;
    const float by = by_voters ? weights : divisor;
    const float divided = sum / (by != 0.0F ? by : 1.0F);
    out[i] = sign != 0.0F ? divided : 0.0F;
  }
  count.undecided += undecided;
  count.balance += balance;
}

/// Whether a task claims a place of the merged vector: 1 or 0.
inline std::int32_t claims_it(float x, float claim, float merged) {
  return std::fabs(x) > claim * std::fabs(merged - x) ? 1 : 0;
}

/// Four tasks at a time: counts are read and written once for them.
void claim(const Rule& rule, std::int64_t at, int n, float* out) {
  alignas(64) std::array<std::int32_t, tile> claims{};
  std::size_t t = 0;
  for (; t + 4 <= rule.terms.size(); t += 4) {
    const auto four = rule.terms.subspan(t, 4);
    const float *a = four[0].x + at, *b = four[1].x + at, *c = four[2].x + at, *d = four[3].x + at;
    const float of_a = four[0].claim, of_b = four[1].claim, of_c = four[2].claim, of_d = four[3].claim;
    for (int i = 0; i < n; ++i)
      claims[i] += claims_it(a[i], of_a, out[i]) + claims_it(b[i], of_b, out[i]) +
                   claims_it(c[i], of_c, out[i]) + claims_it(d[i], of_d, out[i]);
  }
  for (; t < rule.terms.size(); ++t) {
    const float* x = rule.terms[t].x + at;
    for (int i = 0; i < n; ++i) claims[i] += claims_it(x[i], rule.terms[t].claim, out[i]);
  }
  const auto least = static_cast<std::int32_t>(rule.claims);
  for (int i = 0; i < n; ++i) out[i] = claims[i] >= least ? out[i] : 0.0F;
}

/// Numbers at … at + n of the stretches.
Count merge_tile(const Rule& rule, std::int64_t begin, std::int64_t at, int n, float* out) {
  Sums sums;
  sums.all.fill(0);
  if (rule.vote != Vote::none) {
    sums.positive.fill(0);
    sums.negative.fill(0);
    sums.for_negative.fill(0);
  }
  if (rule.vote != Vote::none || rule.by_voters) sums.for_positive.fill(0);
  alignas(64) Tile scratch;
  for (const auto& term : rule.terms) {
    const float* x = term.x + at;
    if (term.draw != nullptr) {
      drop(*term.draw, begin + at, x, n, scratch.data());
      x = scratch.data();
    }
    if (rule.vote != Vote::none) {
      add_by_sign(term, begin + at, x, n, sums);
    } else if (rule.by_voters) {
      add_and_count(term, begin + at, x, n, sums);
    } else {
      add(term, begin + at, x, n, sums);
    }
  }
  Count count;
  if (rule.vote == Vote::none) {
    divide(rule, sums, n, out + at);
  } else {
    elect(rule, sums, n, out + at, count);
  }
  if (rule.claims > 0) claim(rule, at, n, out + at);
  int nonzero = 0;
  for (int i = 0; i < n; ++i) nonzero += out[at + i] != 0.0F ? 1 : 0;
  count.nonzero = nonzero;
  return count;
}

}  // namespace

// Neighbouring numbers often fall into one bin, whose count would be waited for: four tables take turns.
void count_leading(const float* x, std::int64_t n, std::uint64_t* histogram) {
  static_assert(leading_bins == 2048);
  constexpr std::int64_t piece = std::int64_t{1} << 30;  // no table's count overflows
  for (std::int64_t from = 0; from < n; from += piece) {
    const auto m = std::min(piece, n - from);
    std::array<std::array<std::uint32_t, leading_bins>, 4> tables{};
    const float* y = x + from;
    std::int64_t i = 0;
    for (; i + 4 <= m; i += 4) {
      ++tables[0][bits_of(y[i]) >> trailing];
      ++tables[1][bits_of(y[i + 1]) >> trailing];
      ++tables[2][bits_of(y[i + 2]) >> trailing];
      ++tables[3][bits_of(y[i + 3]) >> trailing];
    }
    for (; i < m; ++i) ++tables[0][bits_of(y[i]) >> trailing];
    for (const auto& table : tables) {
      for (int bin = 0; bin < leading_bins; ++bin) histogram[bin] += table[static_cast<std::size_t>(bin)];
    }
  }
}

void count_trailing(const float* x, std::int64_t n, std::uint32_t bin, std::uint64_t* histogram) {
  each_in_bin(x, n, bin, [histogram](std::uint32_t low) { ++histogram[low]; });
}

void collect_trailing(const float* x, std::int64_t n, std::uint32_t bin, std::vector<std::uint32_t>& low) {
  each_in_bin(x, n, bin, [&low](std::uint32_t bits) { low.push_back(bits); });
}

void sample_leading(const float* x, std::int64_t n, std::uint64_t* histogram) {
  for (std::int64_t from = 0; from < n; from += sample_every) {
    const auto end = std::min(n, from + line);
    for (auto i = from; i < end; ++i) ++histogram[bits_of(x[i]) >> sample_shift];
  }
}

// Flags of a block are made by a loop that compilers vectorise, and looked through a line at a time: few are
// set.
void collect_between(const float* x, std::int64_t n, std::uint32_t low, std::uint32_t high,
                     std::int64_t& above, std::vector<std::uint32_t>& inside) {
  static_assert(std::endian::native == std::endian::little, "a word's first flag is its lowest byte");
  constexpr int block = 1024, words_a_line = 8;
  alignas(64) std::array<std::uint8_t, block> flags;
  const auto width = high - low;
  for (std::int64_t from = 0; from < n; from += block) {
    const auto m = static_cast<int>(std::min<std::int64_t>(block, n - from));
    const float* y = x + from;
    int larger = 0;
    for (int i = 0; i < m; ++i) {
      const auto bits = bits_of(y[i]);
      larger += bits >= high ? 1 : 0;
      flags[static_cast<std::size_t>(i)] = bits - low < width ? 1 : 0;
    }
    above += larger;
    std::fill(flags.begin() + m, flags.end(), std::uint8_t{0});
    for (int i = 0; i < m; i += 8 * words_a_line) {
      std::array<std::uint64_t, words_a_line> words;
      std::memcpy(words.data(), flags.data() + i, sizeof words);
      std::uint64_t any = 0;
      for (const auto word : words) any |= word;
      if (any == 0) continue;
      for (int k = 0; k < words_a_line; ++k) {
        for (auto word = words[static_cast<std::size_t>(k)]; word != 0; word &= word - 1)
          inside.push_back(bits_of(y[i + 8 * k + std::countr_zero(word) / 8]));
      }
    }
  }
}

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
  std::array<std::uint32_t, tile / 4 + 1> words;
  for (std::int64_t from = 0; from < n;) {
    const auto place = begin + from, high = place / word;
    const auto low = static_cast<std::uint32_t>(place % word), first_word = low / 4, skip = low % 4;
    const auto m = static_cast<int>(std::min({n - from, word - place % word, std::int64_t{tile} - skip}));
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

Count merge(const Rule& rule, std::int64_t begin, std::int64_t n, float* out) {
  const std::int64_t tiles = (n + tile - 1) / tile;
  std::vector<Count> counts(static_cast<std::size_t>(tiles));
  using Space = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for("taugrid::weights::merge",
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(0, tiles),
                       [&](const std::int64_t k) {
                         const auto at = k * tile;
                         const auto size = static_cast<int>(std::min<std::int64_t>(tile, n - at));
                         counts[static_cast<std::size_t>(k)] = merge_tile(rule, begin, at, size, out);
                       });
  Space().fence();
  Count all;
  for (const auto& one : counts) {
    all.nonzero += one.nonzero;
    all.undecided += one.undecided;
    all.balance += one.balance;
  }
  return all;
}

}  // namespace taugrid::weights::detail
