// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/compare.hpp"

#include <algorithm>
#include <array>

#include "kernels/weights/detail/bits.hpp"
#include "kernels/weights/detail/fetch.hpp"

namespace taugrid::weights {
namespace {

using Doubles = double __attribute__((vector_size(lanes * sizeof(double))));
using Integers = std::int32_t __attribute__((vector_size(lanes * sizeof(std::int32_t))));
using HalvesInMemory = std::uint16_t
    __attribute__((vector_size(lanes * sizeof(std::uint16_t)), aligned(alignof(std::uint16_t)), may_alias));

/// A register's numbers, from either type.
Lanes load(const float* from) { return read(from); }
Lanes load(const std::uint16_t* from) {
  constexpr int bits = 16;
  const Words wide = __builtin_convertvector(*reinterpret_cast<const HalvesInMemory*>(from), Words);
  return __builtin_bit_cast(Lanes, wide << bits);
}

template <class Vector>
auto sum_of(const Vector& x) {
  auto sum = x[0];
  for (std::int64_t l = 1; l < lanes; ++l) sum += x[l];
  return sum;
}

/// Sums of a stretch that is short enough for 32-bit counts.
struct Sums {
  Doubles aa = {}, ad = {}, dd = {}, base = {};
  Words largest_x = {}, largest_d = {};
  Integers equal = {}, opposed = {};

  void add(const Lanes& a, const Lanes& b, const Lanes& start) {
    const Lanes x = a - start, y = b - start, d = y - x;
    const auto wide_x = __builtin_convertvector(x, Doubles), wide_d = __builtin_convertvector(d, Doubles),
               wide_start = __builtin_convertvector(start, Doubles);
    aa += wide_x * wide_x;
    ad += wide_x * wide_d;
    dd += wide_d * wide_d;
    base += wide_start * wide_start;
    detail::see(largest_x, x);
    detail::see(largest_x, y);
    detail::see(largest_d, d);
    equal -= d == 0.0F;
    const auto signs = __builtin_bit_cast(Integers, x) ^ __builtin_bit_cast(Integers, y);
    opposed -= (signs < 0) & (x != 0.0F) & (y != 0.0F);
  }
};

template <class Number>
Compared compare_numbers(const Number* a, const Number* b, const Number* start, std::int64_t n) {
  constexpr std::int64_t ahead = 512, longest = std::int64_t{1} << 30;
  Compared all;
  std::uint32_t largest = 0;
  for (std::int64_t begin = 0; begin < n; begin += longest) {
    const auto end = std::min(n, begin + longest);
    Sums sums;
    auto i = begin;
    for (; i + lanes <= end; i += lanes) {
      const auto there = std::min(i + ahead, n - 1);
      detail::fetch_line(a + there);
      detail::fetch_line(b + there);
      if (start != nullptr) detail::fetch_line(start + there);
      sums.add(load(a + i), load(b + i), start != nullptr ? load(start + i) : Lanes{});
    }
    if (i < end) {  // what is left, and zeros
      std::array<std::array<Number, lanes>, 3> rest{};
      std::copy(a + i, a + end, rest[0].begin());
      std::copy(b + i, b + end, rest[1].begin());
      if (start != nullptr) std::copy(start + i, start + end, rest[2].begin());
      sums.add(load(rest[0].data()), load(rest[1].data()), load(rest[2].data()));
      all.equal -= lanes - (end - i);
    }
    all.aa += sum_of(sums.aa);
    all.ad += sum_of(sums.ad);
    all.dd += sum_of(sums.dd);
    all.base += sum_of(sums.base);
    for (std::int64_t l = 0; l < lanes; ++l) {
      all.equal += sums.equal[l];
      all.opposed += sums.opposed[l];
      largest = std::max<std::uint32_t>(largest, sums.largest_d[l]);
    }
    all.finite &= detail::are_finite(sums.largest_x);
  }
  all.largest = std::bit_cast<float>(largest);
  return all;
}

}  // namespace

Compared compare(const float* a, const float* b, const float* start, std::int64_t n) {
  return compare_numbers(a, b, start, n);
}

Compared compare(const std::uint16_t* a, const std::uint16_t* b, const std::uint16_t* start, std::int64_t n) {
  return compare_numbers(a, b, start, n);
}

}  // namespace taugrid::weights
