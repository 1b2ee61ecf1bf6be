// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Sums over vectors of a merge, at the places of a tile. Vectors are read side by side and once: what becomes
// of a sum is found while it and its terms are in registers.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/weights/detail/draw_host.hpp"
#include "kernels/weights/detail/fetch.hpp"
#include "kernels/weights/detail/merge_host.hpp"
#include "kernels/weights/detail/select_host.hpp"

namespace taugrid::weights::detail {

constexpr int tile = 4096, most_at_once = 8;
using Tile = std::array<float, tile>;

struct Sums {
  alignas(64) Tile positive, negative, for_positive, for_negative;
};

/// Vectors that are added together.
struct Group {
  std::array<const float*, most_at_once> x;     ///< the tile's numbers
  std::array<const float*, most_at_once> from;  ///< where memory has them
  int last;                                     ///< from `from` on, the stretch's last number
  const float* start;                           ///< null, or what is subtracted from each
  std::array<float, most_at_once> weight;
  std::array<std::uint32_t, most_at_once> least;  ///< bits from which a magnitude stays
  std::array<float, most_at_once> claim;
  std::array<Keys, most_at_once> keys;  ///< of draws
  std::array<float, most_at_once> scale;
};

/// Asks memory for what comes some lines after place i: processors that follow few streams by themselves
/// would wait for each of these.
[[gnu::always_inline]] inline void fetch(const Group& group, std::size_t t, int i) {
  constexpr int ahead = 256;
  const int there = i + ahead < group.last ? i + ahead : group.last;
  fetch_line(group.from[t] + there);
}

/// A number, or as many as a register holds: what follows is written for both.
template <class Number>
inline Number load(const float* from) {
  if constexpr (std::is_same_v<Number, Lanes>)
    return read(from);
  else
    return *from;
}
template <class Number>
inline void store(float* to, const Number& x) {
  if constexpr (std::is_same_v<Number, Lanes>)
    write(to, x);
  else
    *to = x;
}
template <class Number>
inline Number size_of(const Number& x) {
  return __builtin_bit_cast(Number, bits_of(x));
}
/// In a comparison's place: 1 where it holds, and 0.
template <class Number, class Holds>
inline Number ones(const Holds& holds) {
  return holds ? Number{} + 1.0F : Number{};
}
inline float sum_of(const Lanes& x) {
  float sum = 0;
  for (std::int64_t l = 0; l < lanes; ++l) sum += x[l];
  return sum;
}

/// Calls see.operator()<Number>(i) for the places of a tile in order, a register's numbers at a time.
template <class See>
inline void each_place(int n, const See& see) {
  constexpr int step = static_cast<int>(lanes);
  int i = 0;
  for (; i + step <= n; i += step) see.template operator()<Lanes>(i);
  for (; i < n; ++i) see.template operator()<float>(i);
}

/// The same, and fetches what comes of the group's vectors, a line at a time.
template <int Count, class See>
inline void each_place(const Group& group, int n, const See& see) {
  each_place(n, [&]<class Number>(int i) {
    if (std::is_same_v<Number, Lanes> && i % line == 0) {
      for (std::size_t t = 0; t < Count; ++t) fetch(group, t, i);
    }
    see.template operator()<Number>(i);
  });
}

/// Vector t's numbers.
template <bool Differs, class Number>
inline Number tau(const Group& group, std::size_t t, std::int64_t i) {
  const auto x = load<Number>(group.x[t] + i);
  if constexpr (Differs) {
    return x - load<Number>(group.start + i);
  } else {
    return x;
  }
}

/// The same, as trimming leaves them.
template <bool Differs, bool Trims, class Number>
inline Number kept(const Group& group, std::size_t t, int i, Words& largest) {
  const auto x = tau<Differs, Number>(group, t, i);
  if (Differs) see(largest, x);
  if constexpr (Trims) {
    return bits_of(x) >= group.least[t] ? x : Number{};
  } else {
    return x;
  }
}

/// Where a task claims the merged vector's place.
template <class Number>
inline Number claimed(const Number& x, float claim, const Number& merged) {
  return ones<Number>(size_of(x) > claim * size_of<Number>(merged - x));
}

/// What becomes of a sum: nothing yet.
struct GoesOn {
  template <int Count, class Number>
  Number operator()(const Group&, int, const Number& sum) const {
    return sum;
  }
};

/// It is divided.
struct Divided {
  float divisor;
  template <int Count, class Number>
  Number operator()(const Group&, int, const Number& sum) const {
    return sum / divisor;
  }
};

/// It is divided, and stays where as many tasks of the group, which are all, claim its place.
template <bool Differs>
struct Claimed {
  float divisor, claims;
  template <int Count, class Number>
  Number operator()(const Group& group, int i, const Number& sum) const {
    const Number merged = sum / divisor;
    Number claimants = {};
    for (std::size_t t = 0; t < Count; ++t)
      claimants += claimed(tau<Differs, Number>(group, t, i), group.claim[t], merged);
    return claimants >= claims ? merged : Number{};
  }
};

/// What `out` has before the first vectors is never read: memory would have to give it.
template <class Add>
inline void begin_or_go_on(bool first, const Add& with) {
  first ? with(std::true_type{}) : with(std::false_type{});
}

/// A product that the compiler does not fuse with what it is added to.
template <class Number>
inline Number rounded(Number product) {
#if defined(__x86_64__)
  asm("" : "+x"(product));
#elif defined(__aarch64__)
  asm("" : "+w"(product));
#else
  volatile Number stored = product;
  product = stored;
#endif
  return product;
}

/// Begins sums, or goes on from those that `out` has. Returns how many numbers are not zero; of differences
/// `largest` keeps the largest bits.
template <int Count, bool Differs, bool Trims, bool Rounds = false, class End>
int add(const Group& group, bool first, int n, float* out, Words& largest, const End end) {
  const Group local = group;
  Words most = largest;
  Lanes nonzero = {};
  float rest = 0;
  begin_or_go_on(first, [&](auto begins) {
    each_place<Count>(local, n, [&]<class Number>(int i) {
      Number sum = begins ? Number{} : load<Number>(out + i);
      for (std::size_t t = 0; t < Count; ++t)
        if constexpr (Rounds) {
          sum += rounded<Number>(local.weight[t] * kept<Differs, Trims, Number>(local, t, i, most));
        } else {
          sum += local.weight[t] * kept<Differs, Trims, Number>(local, t, i, most);
        }
      sum = end.template operator()<Count>(local, i, sum);
      store(out + i, sum);
      if constexpr (std::is_same_v<Number, Lanes>) {
        nonzero += ones<Number>(sum != 0.0F);
      } else {
        rest += ones<Number>(sum != 0.0F);
      }
    });
  });
  largest = most;
  return static_cast<int>(sum_of(nonzero) + rest);
}

/// The same of n numbers, whole strips from place low of their keys on, that are dropped on the way.
template <int Count, bool Differs, bool Further, class End>
int add_dropped(const Group& group, bool first, std::uint32_t low, std::uint32_t below, int n, float* out,
                Words& largest, const End end) {
  const Group local = group;
  Words most = largest;
  Lanes nonzero = {};
  begin_or_go_on(first, [&](auto begins) {
    for (int i = 0; i < n; i += strip) {
      Lanes sum[4];
      for (int q = 0; q < 4; ++q) sum[q] = begins ? Lanes{} : read(out + i + q * lanes);
      for (std::size_t t = 0; t < Count; ++t) {
        for (int k = 0; k < strip; k += static_cast<int>(line)) fetch(local, t, i + k);
        const auto draws = draw_strip<Further>(local.keys[t], low + static_cast<std::uint32_t>(i), below);
        for (int q = 0; q < 4; ++q) {
          const auto x = tau<Differs, Lanes>(local, t, i + q * lanes);
          if (Differs) see(most, x);
          sum[q] += local.weight[t] * dropped(draws.quarter[q], below, x, local.scale[t]);
        }
      }
      for (int q = 0; q < 4; ++q) {
        sum[q] = end.template operator()<Count>(local, i, sum[q]);
        write(out + i + q * lanes, sum[q]);
        nonzero += ones<Lanes>(sum[q] != 0.0F);
      }
    }
  });
  largest = most;
  return static_cast<int>(sum_of(nonzero));
}

/// Goes on with sums and, at each place, the weights of those that are not zero.
template <int Count, bool Differs, bool Trims>
void add_and_count(const Group& group, int n, float* out, float* voters, Words& largest) {
  const Group local = group;
  Words most = largest;
  each_place<Count>(local, n, [&]<class Number>(int i) {
    auto all = load<Number>(out + i), weights = load<Number>(voters + i);
    for (std::size_t t = 0; t < Count; ++t) {
      const auto x = kept<Differs, Trims, Number>(local, t, i, most);
      all += local.weight[t] * x;
      weights += x != 0.0F ? Number{} + local.weight[t] : Number{};
    }
    store(out + i, all);
    store(voters + i, weights);
  });
  largest = most;
}

/// Goes on with sums, and with these and the weights of both signs by themselves.
template <int Count, bool Differs, bool Trims>
void add_by_sign(const Group& group, int n, float* out, Sums& sums, Words& largest) {
  const Group local = group;
  Words most = largest;
  each_place<Count>(local, n, [&]<class Number>(int i) {
    auto all = load<Number>(out + i), positive = load<Number>(sums.positive.data() + i),
         negative = load<Number>(sums.negative.data() + i);
    auto for_positive = load<Number>(sums.for_positive.data() + i),
         for_negative = load<Number>(sums.for_negative.data() + i);
    for (std::size_t t = 0; t < Count; ++t) {
      const Number weight = Number{} + local.weight[t],
                   y = weight * kept<Differs, Trims, Number>(local, t, i, most);
      all += y;
      positive = y > 0.0F ? positive + y : positive;
      negative = y < 0.0F ? negative + y : negative;
      for_positive = y > 0.0F ? for_positive + weight : for_positive;
      for_negative = y < 0.0F ? for_negative + weight : for_negative;
    }
    store(out + i, all);
    store(sums.positive.data() + i, positive);
    store(sums.negative.data() + i, negative);
    store(sums.for_positive.data() + i, for_positive);
    store(sums.for_negative.data() + i, for_negative);
  });
  largest = most;
}

}  // namespace taugrid::weights::detail
