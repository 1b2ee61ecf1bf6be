// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A tile of every vector goes through all steps of a merge while it stays in the first cache.
#include "kernels/weights/detail/merge_host.hpp"

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "kernels/weights/detail/draw_host.hpp"
#include "kernels/weights/detail/select_host.hpp"
#include "kernels/weights/detail/sums_host.hpp"
#include "kernels/weights/subtract.hpp"

namespace taugrid::weights::detail {
namespace {

/// out: the numbers that are among the largest, or those that are not.
template <bool Are>
void keep(const Largest& largest, std::int64_t begin, const float* x, int n, float* out) {
  const auto part = static_cast<int>(std::clamp<std::int64_t>(largest.limit - begin, 0, n));
  for (int i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const bool is_large = (bits & magnitude) >= (i < part ? largest.before : largest.after);
    out[i] = std::bit_cast<float>(is_large == Are ? bits : 0U);
  }
}

/// Means of those that are not zero; `out` has the sums.
void divide_by_voters(const Sums& sums, int n, float* out) {
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

/// Adds the claims of `Count` tasks.
template <std::size_t Count, bool Differs>
void claim(const Group& group, int n, const float* out, float* claims) {
  each_place(n, [&]<class Number>(int i) {
    const auto merged = load<Number>(out + i);
    auto sum = load<Number>(claims + i);
    for (std::size_t t = 0; t < Count; ++t)
      sum += claimed(tau<Differs, Number>(group, t, i), group.claim[t], merged);
    store(claims + i, sum);
  });
}

int count_nonzero(const float* out, int n) {
  int nonzero = 0;
  for (int i = 0; i < n; ++i) nonzero += out[i] != 0.0F ? 1 : 0;
  return nonzero;
}

/// One tile of a merge: numbers at … at + n of stretches that begin at place `begin` and have `end` numbers.
class TileMerge {
 public:
  TileMerge(const Rule& rule, std::int64_t begin, std::int64_t at, int n, std::int64_t end, float* out)
      : rule_(rule), begin_(begin + at), at_(at), end_(end), n_(n), out_(out + at) {
    const auto t = rule.terms.size();
    bool trims = false;
    for (const auto& term : rule.terms) trims |= term.kept.before != 0 || term.outliers != nullptr;
    const bool sums_alone = !elects() && !rule.by_voters && !trims;
    const auto* draw = rule.terms.front().draw;
    const bool of_one_density = std::all_of(rule.terms.begin(), rule.terms.end(), [&](const Term& term) {
      return draw == nullptr || term.draw->below == draw->below;
    });
    drops_on_the_way_ = sums_alone && draw != nullptr && of_one_density && !draw->all_stay() &&
                        n % strip == 0 && begin_ % 4 == 0 && begin_ % places_a_key + n <= places_a_key;
    claims_on_the_way_ =
        sums_alone && draw == nullptr && claims() && t <= most_at_once && std::has_single_bit(t);
  }

  Count run() {
    merge();
    count_.finite = are_finite(largest_);
    return count_;
  }

 private:
  bool elects() const { return rule_.vote != Vote::none; }
  bool claims() const { return rule_.claims > 0; }

  void merge() {
    if (elects() || rule_.by_voters) {
      std::fill_n(out_, n_, 0.0F);
      for (auto* sum : {&sums_.positive, &sums_.negative, &sums_.for_positive, &sums_.for_negative})
        std::fill_n(sum->begin(), n_, 0.0F);
    }
    for (std::size_t t = 0; t < rule_.terms.size();) {
      const auto left = rule_.terms.size() - t;
      if (left >= 8) {
        t = add_terms<8>(t);
      } else if (left >= 4) {
        t = add_terms<4>(t);
      } else if (left >= 2) {
        t = add_terms<2>(t);
      } else {
        t = add_terms<1>(t);
      }
    }
    const bool claims_now = claims() && !claims_on_the_way_;
    if (elects()) {
      elect(rule_, sums_, n_, out_, count_);
    } else if (rule_.by_voters) {
      divide_by_voters(sums_, n_, out_);
    } else if (!claims_now) {
      return;  // counted on the way
    }
    if (claims_now) claim_all();
    count_.nonzero = count_nonzero(out_, n_);
  }

  /// Adds the terms from t on; returns the next one's place.
  template <int Some>
  std::size_t add_terms(std::size_t t) {
    auto group = group_of<Some>(t);
    bool needs_scratch = false;
    for (std::size_t k = 0; k < Some; ++k) needs_scratch |= changes(rule_.terms[t + k]);
    if (needs_scratch) subtract_all<Some>(group);
    bool trims = false;
    for (std::size_t k = 0; k < Some; ++k) trims |= prepare(rule_.terms[t + k], k, group);
    const bool first = t == 0;
    t += Some;
    const bool last = t == rule_.terms.size();
    if (group.start != nullptr) {
      trims ? add_group<Some, true, true>(group, first, last)
            : add_group<Some, true, false>(group, first, last);
    } else {
      trims ? add_group<Some, false, true>(group, first, last)
            : add_group<Some, false, false>(group, first, last);
    }
    return t;
  }

  /// As memory has them.
  template <std::size_t Some>
  Group group_of(std::size_t t) const {
    Group group;
    group.last = static_cast<int>(std::min<std::int64_t>(end_ - at_, std::numeric_limits<int>::max()) - 1);
    group.start = rule_.start != nullptr ? rule_.start + at_ : nullptr;
    for (std::size_t k = 0; k < Some; ++k) {
      const auto& term = rule_.terms[t + k];
      group.x[k] = group.from[k] = term.x + at_;
      group.weight[k] = term.weight;
      group.claim[k] = term.claim;
    }
    return group;
  }

  /// Whether its numbers have to be changed in memory of our own before they are added.
  bool changes(const Term& term) const {
    return (term.draw != nullptr && !drops_on_the_way_) || limit_inside(term) || term.outliers != nullptr;
  }
  bool limit_inside(const Term& term) const {
    return term.kept.limit > begin_ && term.kept.limit < begin_ + n_;
  }

  /// τ into memory of our own.
  template <std::size_t Some>
  void subtract_all(Group& group) {
    if (group.start == nullptr) return;
    std::array<float*, Some> scratch;
    for (std::size_t k = 0; k < Some; ++k) scratch[k] = scratch_[k].data();
    if (!subtract({group.x.data(), Some}, group.start, scratch, n_)) largest_[0] = infinity;
    for (std::size_t k = 0; k < Some; ++k) group.x[k] = scratch[k];
    group.start = nullptr;
  }

  /// Whether trimming is left to do when it is added.
  bool prepare(const Term& term, std::size_t place, Group& group) {
    float* scratch = scratch_[place].data();
    if (drops_on_the_way_) {
      group.keys[place] = keys_of(*term.draw, begin_);
      group.scale[place] = term.draw->scale;
    } else if (term.draw != nullptr) {
      drop(*term.draw, begin_, group.x[place], n_, scratch);
      group.x[place] = scratch;
    }
    if (term.outliers != nullptr) {
      keep<false>(*term.outliers, begin_, group.x[place], n_, scratch);
      group.x[place] = scratch;
    }
    const auto& kept = term.kept;
    const bool inside = limit_inside(term);
    if (inside) {
      keep<true>(kept, begin_, group.x[place], n_, scratch);
      group.x[place] = scratch;
    }
    group.least[place] = kept.before == 0 || inside ? 0 : kept.limit > begin_ ? kept.before : kept.after;
    return group.least[place] > 0;
  }

  template <int Some, bool Differs, bool Trims>
  void add_group(const Group& group, bool first, bool last) {
    const Divided divided{rule_.divisor};
    if (elects()) {
      add_by_sign<Some, Differs, Trims>(group, n_, out_, sums_, largest_);
    } else if (rule_.by_voters) {
      add_and_count<Some, Differs, Trims>(group, n_, out_, sums_.for_positive.data(), largest_);
    } else if (claims_on_the_way_) {
      count_.nonzero =
          add<Some, Differs, false>(group, first, n_, out_, largest_,
                                    Claimed<Differs>{rule_.divisor, static_cast<float>(rule_.claims)});
    } else if (drops_on_the_way_) {
      count_.nonzero = last ? drop_group<Some, Differs>(group, first, divided)
                            : drop_group<Some, Differs>(group, first, GoesOn{});
    } else if (!Trims && rule_.rounds_products) {
      count_.nonzero = last ? add<Some, Differs, false, true>(group, first, n_, out_, largest_, divided)
                            : add<Some, Differs, false, true>(group, first, n_, out_, largest_, GoesOn{});
    } else {
      count_.nonzero = last ? add<Some, Differs, Trims>(group, first, n_, out_, largest_, divided)
                            : add<Some, Differs, Trims>(group, first, n_, out_, largest_, GoesOn{});
    }
  }

  template <int Some, bool Differs, class End>
  int drop_group(const Group& group, bool first, const End end) {
    const auto below = static_cast<std::uint32_t>(rule_.terms.front().draw->below);
    const auto low = static_cast<std::uint32_t>(begin_ % places_a_key);
    return (below & ~leading_bits) != 0
               ? add_dropped<Some, Differs, true>(group, first, low, below, n_, out_, largest_, end)
               : add_dropped<Some, Differs, false>(group, first, low, below, n_, out_, largest_, end);
  }

  template <std::size_t Some>
  void claim_some(std::size_t t, float* claims) {
    const auto group = group_of<Some>(t);
    group.start != nullptr ? claim<Some, true>(group, n_, out_, claims)
                           : claim<Some, false>(group, n_, out_, claims);
  }

  /// Claims for four tasks at a time: claims are read and written once for them.
  void claim_all() {
    alignas(64) Tile claims{};
    std::size_t t = 0;
    for (; t + 4 <= rule_.terms.size(); t += 4) claim_some<4>(t, claims.data());
    for (; t < rule_.terms.size(); ++t) claim_some<1>(t, claims.data());
    const auto least = static_cast<float>(rule_.claims);
    for (int i = 0; i < n_; ++i) out_[i] = claims[static_cast<std::size_t>(i)] >= least ? out_[i] : 0.0F;
  }

  const Rule& rule_;
  std::int64_t begin_, at_, end_;
  int n_;
  float* out_;
  bool drops_on_the_way_, claims_on_the_way_;
  Count count_;
  Words largest_ = {};  ///< bits of differences' magnitudes
  Sums sums_;
  alignas(64) std::array<Tile, most_at_once> scratch_;
};

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
                         counts[static_cast<std::size_t>(k)] = TileMerge(rule, begin, at, size, n, out).run();
                       });
  Space().fence();
  Count all;
  const auto is_undecided = [](const Count& count) { return count.undecided > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_undecided);
  if (first != counts.end()) {
    const auto last = std::find_if(counts.rbegin(), counts.rend(), is_undecided).base();
    all.undecided_begin = begin + (first - counts.begin()) * tile;
    all.undecided_end = begin + std::min(n, (last - counts.begin()) * tile);
    for (auto count = first; count != last; ++count) all.undecided_nonzero += count->nonzero;
  }
  for (const auto& count : counts) {
    all.nonzero += count.nonzero;
    all.undecided += count.undecided;
    all.balance += count.balance;
    all.finite &= count.finite;
  }
  return all;
}

}  // namespace taugrid::weights::detail
