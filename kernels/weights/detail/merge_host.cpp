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
#include <utility>
#include <vector>

#include "kernels/weights/detail/select_host.hpp"

namespace taugrid::weights::detail {
namespace {

constexpr int tile = 512, most_at_once = 8;
using Tile = std::array<float, tile>;

struct Sums {
  alignas(64) Tile positive, negative, for_positive, for_negative;
};

/// Vectors that are added together: a pass over memory reads them side by side, and sums are loaded and
/// stored once for all of them.
struct Group {
  std::array<const float*, most_at_once> x;
  std::array<float, most_at_once> weight;
  std::array<std::uint32_t, most_at_once> least;  ///< bits from which a magnitude stays
};

/// The numbers of one place as trimming leaves them, one after another, with their weights. No loop: one in
/// the loop over places would keep that from being vectorised.
template <int Count, bool Trims, class See>
inline void each_of(const Group& group, int i, const See& see) {
  const auto one = [&](std::size_t t) {
    float kept = group.x[t][i];
    if constexpr (Trims) {
      const auto bits = std::bit_cast<std::uint32_t>(kept);
      kept = std::bit_cast<float>((bits & magnitude) >= group.least[t] ? bits : 0U);
    }
    see(group.weight[t], kept);
  };
  [&]<std::size_t... T>(std::index_sequence<T...>) { (one(T), ...); }
  (std::make_index_sequence<Count>{});
}

/// Where `first`, sums begin here. Loops over neighbouring numbers, which compilers vectorise.
template <int Count, bool Trims>
void add(const Group& group, bool first, int n, float* __restrict out) {
  if (first) std::fill_n(out, n, 0.0F);
  const Group own = group;
  for (int i = 0; i < n; ++i) {
    float all = out[i];
    each_of<Count, Trims>(own, i, [&](float weight, float kept) { all += weight * kept; });
    out[i] = all;
  }
}

template <int Count, bool Trims>
void add_and_count(const Group& group, bool first, int n, float* __restrict out,
                   float* __restrict for_positive) {
  if (first) {
    std::fill_n(out, n, 0.0F);
    std::fill_n(for_positive, n, 0.0F);
  }
  const Group own = group;
  for (int i = 0; i < n; ++i) {
    float all = out[i], voters = for_positive[i];
    each_of<Count, Trims>(own, i, [&](float weight, float kept) {
      all += weight * kept;
      voters += kept != 0.0F ? weight : 0.0F;
    });
    out[i] = all;
    for_positive[i] = voters;
  }
}

template <int Count, bool Trims>
void add_by_sign(const Group& group, bool first, int n, float* __restrict out, float* __restrict positives,
                 float* __restrict negatives, float* __restrict for_positives,
                 float* __restrict for_negatives) {
  if (first) {
    for (float* sum : {out, positives, negatives, for_positives, for_negatives}) std::fill_n(sum, n, 0.0F);
  }
  const Group own = group;
  for (int i = 0; i < n; ++i) {
    float all = out[i], positive = positives[i], negative = negatives[i];
    float for_positive = for_positives[i], for_negative = for_negatives[i];
    each_of<Count, Trims>(own, i, [&](float weight, float kept) {
      const float y = weight * kept;
      all += y;
      positive += y > 0.0F ? y : 0.0F;
      negative += y < 0.0F ? y : 0.0F;
      for_positive += y > 0.0F ? weight : 0.0F;
      for_negative += y < 0.0F ? weight : 0.0F;
    });
    out[i] = all;
    positives[i] = positive;
    negatives[i] = negative;
    for_positives[i] = for_positive;
    for_negatives[i] = for_negative;
  }
}

template <int Count, bool Trims>
void add(const Rule& rule, const Group& group, bool first, int n, float* out, Sums& sums) {
  if (rule.vote != Vote::none) {
    add_by_sign<Count, Trims>(group, first, n, out, sums.positive.data(), sums.negative.data(),
                              sums.for_positive.data(), sums.for_negative.data());
  } else if (rule.by_voters) {
    add_and_count<Count, Trims>(group, first, n, out, sums.for_positive.data());
  } else {
    add<Count, Trims>(group, first, n, out);
  }
}

/// A cut whose limit lies inside: `out` has what stays.
void trim(const Term& term, std::int64_t begin, const float* x, int n, float* out) {
  const auto part = static_cast<int>(std::clamp<std::int64_t>(term.limit - begin, 0, n));
  for (int i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    out[i] = std::bit_cast<float>((bits & magnitude) >= (i < part ? term.before : term.after) ? bits : 0U);
  }
}

/// The result without an election; `out` has the sums.
void divide(const Rule& rule, const Sums& sums, int n, float* out) {
  if (!rule.by_voters) {
    if (rule.divisor == 1) return;
    for (int i = 0; i < n; ++i) out[i] /= rule.divisor;
    return;
  }
  for (int i = 0; i < n; ++i) {
    const float weights = sums.for_positive[i], mean = out[i] / (weights != 0.0F ? weights : 1.0F);
    out[i] = weights != 0.0F ? mean : 0.0F;
  }
}

void elect(const Rule& rule, const Sums& sums, int n, float* out, Count& count) {
  const float when_zero = rule.vote == Vote::positive ? 1.0F : rule.vote == Vote::negative ? -1.0F : 0.0F;
  const bool by_voters = rule.by_voters;
  const float divisor = rule.divisor;
  int undecided = 0, balance = 0;
  for (int i = 0; i < n; ++i) {  // without branches: signs are as chance has them
    const float all = out[i], positive = sums.positive[i], negative = sums.negative[i];
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

/// Of `Count` tasks at a time: counts are read and written once for them. What is next of these tasks comes
/// from memory meanwhile, a line of each at a time, as far as `ahead` numbers.
template <std::size_t Count>
void claim(const Term* terms, std::int64_t at, int n, int ahead, const float* out, std::int32_t* claims) {
  std::array<const float*, Count> x;
  std::array<float, Count> least;
  for (std::size_t t = 0; t < Count; ++t) {
    x[t] = terms[t].x + at;
    least[t] = terms[t].claim;
  }
  for (int begin = 0; begin < n; begin += static_cast<int>(line)) {
    if (begin < ahead) {
      for (std::size_t t = 0; t < Count; ++t) __builtin_prefetch(x[t] + n + begin);
    }
    const int end = std::min(n, begin + static_cast<int>(line));
    for (int i = begin; i < end; ++i) {
      std::int32_t own = claims[i];
      [&]<std::size_t... T>(std::index_sequence<T...>) {
        ((own += claims_it(x[T][i], least[T], out[i])), ...);
      }
      (std::make_index_sequence<Count>{});
      claims[i] = own;
    }
  }
}

void claim(const Rule& rule, std::int64_t at, int n, std::int64_t end, float* out) {
  alignas(64) std::array<std::int32_t, tile> claims{};
  const auto ahead = static_cast<int>(std::min<std::int64_t>(n, end - at - n));
  std::size_t t = 0;
  for (; t + 4 <= rule.terms.size(); t += 4) claim<4>(&rule.terms[t], at, n, ahead, out, claims.data());
  for (; t < rule.terms.size(); ++t) claim<1>(&rule.terms[t], at, n, ahead, out, claims.data());
  const auto least = static_cast<std::int32_t>(rule.claims);
  for (int i = 0; i < n; ++i) out[i] = claims[i] >= least ? out[i] : 0.0F;
}

/// Fetches numbers from … to of a stretch of `end` numbers, while memory would have nothing to do.
void fetch(const Term& term, std::int64_t from, std::int64_t to, std::int64_t end) {
  for (auto i = from; i < std::min(to, end); i += line) __builtin_prefetch(term.x + i);
}

/// Numbers at … at + n of the stretches, which end at `end`.
Count merge_tile(const Rule& rule, std::int64_t begin, std::int64_t at, int n, std::int64_t end, float* out) {
  Sums sums;
  alignas(64) std::array<Tile, most_at_once> scratch;
  const auto prepare = [&](const Term& term, std::size_t place, Group& group) {
    const float* x = term.x + at;
    float* own = scratch[place].data();
    if (term.draw != nullptr) {
      // Drawing takes as long as reading: what is next comes meanwhile.
      const bool last = &term == &rule.terms.back();
      fetch(last ? rule.terms.front() : *(&term + 1), last ? at + n : at, last ? at + 2 * n : at + n, end);
      drop(*term.draw, begin + at, x, n, own);
      x = own;
    }
    const bool all_before = term.limit >= begin + at + n;
    const bool inside = !all_before && term.limit > begin + at;
    if (inside) {
      trim(term, begin + at, x, n, own);
      x = own;
    }
    group.x[place] = x;
    group.weight[place] = term.weight;
    group.least[place] = term.before == 0 || inside ? 0 : all_before ? term.before : term.after;
    return group.least[place] > 0;
  };
  for (std::size_t t = 0; t < rule.terms.size();) {
    const auto left = rule.terms.size() - t;
    const std::size_t count = left >= most_at_once ? most_at_once : left >= 2 ? 2 : 1;
    Group group{};
    bool trims = false;
    for (std::size_t k = 0; k < count; ++k) trims |= prepare(rule.terms[t + k], k, group);
    const auto add_them = [&]<int Count>() {
      trims ? add<Count, true>(rule, group, t == 0, n, out + at, sums)
            : add<Count, false>(rule, group, t == 0, n, out + at, sums);
    };
    if (count == most_at_once) {
      add_them.template operator()<most_at_once>();
    } else if (count == 2) {
      add_them.template operator()<2>();
    } else {
      add_them.template operator()<1>();
    }
    t += count;
  }
  constexpr std::int64_t some = 128;
  if (rule.claims == 0) {  // claims fetch what is next themselves
    for (const auto& term : rule.terms) fetch(term, at + n, at + n + some, end);
  }
  Count count;
  if (rule.vote == Vote::none) {
    divide(rule, sums, n, out + at);
  } else {
    elect(rule, sums, n, out + at, count);
  }
  if (rule.claims > 0) claim(rule, at, n, end, out + at);
  int nonzero = 0;
  for (int i = 0; i < n; ++i) nonzero += out[at + i] != 0.0F ? 1 : 0;
  count.nonzero = nonzero;
  return count;
}

}  // namespace

Count merge(const Rule& rule, std::int64_t begin, std::int64_t n, float* out) {
  const std::int64_t tiles = (n + tile - 1) / tile;
  std::vector<Count> counts(static_cast<std::size_t>(tiles));
  using Space = Kokkos::DefaultHostExecutionSpace;
  Kokkos::parallel_for("taugrid::weights::merge",
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(0, tiles),
                       [&](const std::int64_t k) {
                         const auto at = k * tile;
                         const auto size = static_cast<int>(std::min<std::int64_t>(tile, n - at));
                         counts[static_cast<std::size_t>(k)] = merge_tile(rule, begin, at, size, n, out);
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
