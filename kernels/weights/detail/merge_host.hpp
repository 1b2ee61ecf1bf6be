// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Merging on bare host memory: arguments are checked by the caller.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace taugrid::weights::detail {

/// Counts magnitudes by the leading 11 of their 31 bits: 2048 bins.
void count_leading(const float* x, std::int64_t n, std::uint64_t* histogram);
/// Counts the magnitudes whose leading bits are `bin` by their low 20 bits.
void count_trailing(const float* x, std::int64_t n, std::uint32_t bin, std::uint64_t* histogram);
/// Appends the low 20 bits of these magnitudes.
void collect_trailing(const float* x, std::int64_t n, std::uint32_t bin, std::vector<std::uint32_t>& low);

/// Of a vector's stretches one line of 16 numbers in 512 is looked at: counts their magnitudes by the leading
/// 16 bits, 65536 bins.
constexpr int sample_shift = 15;
constexpr std::int64_t line = 16, sample_every = 512;
void sample_leading(const float* x, std::int64_t n, std::uint64_t* histogram);
/// Adds to `above` how many magnitudes have bits of at least `high`, and appends the bits from `low` to below
/// `high`.
void collect_between(const float* x, std::int64_t n, std::uint32_t low, std::uint32_t high,
                     std::int64_t& above, std::vector<std::uint32_t>& inside);

/// DARE's draw for one vector: which of its numbers stay, and times what.
struct Draw {
  std::uint64_t seed;
  std::int64_t vector;
  std::uint64_t below;  ///< of 2³² draws those that keep a number
  float scale;
};
void drop(const Draw& draw, std::int64_t begin, const float* x, std::int64_t n, float* out);

struct Term {
  const float* x;
  float weight;
  const Draw* draw;  ///< or null
  /// Trimming keeps magnitudes whose bits are at least `before` in places before `limit`, `after` from there
  /// on.
  std::uint32_t before, after;
  std::int64_t limit;
  float claim;
};

enum class Vote { none, positive, negative, nobody };

struct Rule {
  std::span<const Term> terms;
  Vote vote;
  bool by_voters;
  float divisor;
  std::int64_t claims;  ///< 0: not asked
};

struct Count {
  std::int64_t nonzero = 0, undecided = 0, balance = 0;
};

Count merge(const Rule& rule, std::int64_t begin, std::int64_t n, float* out);

}  // namespace taugrid::weights::detail
