// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Counting, collecting and adding magnitudes on bare host memory, by their bits: arguments are checked by the
// caller.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/weights/detail/bits.hpp"

namespace taugrid::weights::detail {

/// Counts magnitudes by the leading 11 of their 31 bits: 2048 bins.
void count_leading(const float* x, std::int64_t n, std::uint64_t* histogram);
/// Counts the magnitudes whose leading bits are `bin` by their low 20 bits.
void count_trailing(const float* x, std::int64_t n, std::uint32_t bin, std::uint64_t* histogram);

constexpr std::int64_t line = 16;  ///< numbers of a line of memory
/// Looks at the first `looked_at` numbers in `every` of a stretch: counts their magnitudes by the leading 15
/// bits, 32768 bins. Where `start` is not null, the numbers are x − start, as below.
constexpr int sample_shift = 16;
constexpr std::int64_t looked_at = 2 * line;  // finding their page takes as long
void sample_leading(const float* x, const float* start, std::int64_t n, std::int64_t every,
                    std::uint64_t* histogram);
/// Adds to `above` how many magnitudes have bits of at least `high`, and appends those with bits from `low`
/// to below `high`.
void collect_between(const float* x, const float* start, std::int64_t n, std::uint32_t low,
                     std::uint32_t high, std::int64_t& above, std::vector<float>& inside);

/// Adds each |x| to the sum of its place, counted from `place`, modulo their number.
void add_magnitudes(const float* x, std::int64_t n, std::int64_t place, std::array<double, line>& sums);

}  // namespace taugrid::weights::detail
