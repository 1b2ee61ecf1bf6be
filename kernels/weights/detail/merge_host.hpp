// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Merging on bare host memory: arguments are checked by the caller.
#pragma once

#include <cstdint>
#include <span>

namespace taugrid::weights::detail {

/// DARE's draw for one vector: which of its numbers stay, and times what.
struct Draw {
  std::uint64_t seed;
  std::int64_t vector;
  std::uint64_t below;  ///< of 2³² draws those that keep a number
  float scale;

  bool all_stay() const { return below >> 32 != 0; }
};
/// out = x, which begins at number `begin`, dropped.
void drop(const Draw& draw, std::int64_t begin, const float* x, std::int64_t n, float* out);

/// The draws of 2³² that keep a number with this probability.
std::uint64_t draws_below(double probability);
/// As drop(), where number i stays with probability p[i], and counts once, or 1/p[i] times.
void drop_each(const Draw& draw, std::int64_t begin, const float* x, const double* p, bool rescales,
               std::int64_t n, float* out);

/// Magnitudes whose bits are at least `before` in places before `limit`, `after` from there on.
struct Largest {
  std::uint32_t before, after;
  std::int64_t limit;
};

struct Term {
  const float* x;
  float weight;
  const Draw* draw;         ///< or null
  Largest kept;             ///< trimming keeps these
  const Largest* outliers;  ///< or null: but for these
  float claim;
};

enum class Vote { none, positive, negative, nobody };

struct Rule {
  std::span<const Term> terms;
  const float* start;  ///< null, or the numbers of a term are x − start
  Vote vote;
  bool by_voters;
  float divisor;
  std::int64_t claims;  ///< 0: not asked
  bool rounds_products;
};

struct Count {
  std::int64_t nonzero = 0, undecided = 0, balance = 0;
  bool finite = true;  ///< all differences
  /// Numbers of the stretch, whole tiles, that have all undecided places, and the result's nonzero ones
  /// there.
  std::int64_t undecided_begin = 0, undecided_end = 0, undecided_nonzero = 0;
};

/// `out` overlaps none of the terms: sums grow in it.
Count merge(const Rule& rule, std::int64_t begin, std::int64_t n, float* out);

}  // namespace taugrid::weights::detail
