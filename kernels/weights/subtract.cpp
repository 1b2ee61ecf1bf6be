// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/subtract.hpp"

#include <algorithm>
#include <array>

#include "kernels/weights/detail/bits.hpp"
#include "kernels/weights/detail/fetch.hpp"

namespace taugrid::weights {
namespace {

/// A processor reads a few streams faster than one, which it does not follow beyond a page of its own accord.
template <std::size_t Count>
bool subtract(const float* const* tuned, const float* start, float* const* out, std::int64_t n) {
  constexpr std::int64_t ahead = 1024 / Count;
  std::array<const float*, Count> x;
  std::array<float*, Count> to;
  std::copy_n(tuned, Count, x.begin());
  std::copy_n(out, Count, to.begin());
  Words largest = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto there = i + ahead < n ? i + ahead : n - 1;
    for (std::size_t t = 0; t < Count; ++t) detail::fetch_line(x[t] + there);
    const auto theta0 = read(start + i);
    for (std::size_t t = 0; t < Count; ++t) {
      const Lanes tau = read(x[t] + i) - theta0;
      write(to[t] + i, tau);
      detail::see(largest, tau);
    }
  }
  for (; i < n; ++i) {
    for (std::size_t t = 0; t < Count; ++t) {
      const float tau = x[t][i] - start[i];
      to[t][i] = tau;
      detail::see(largest, tau);
    }
  }
  return detail::are_finite(largest);
}

}  // namespace

bool subtract(std::span<const float* const> tuned, const float* start, std::span<float* const> out,
              std::int64_t n) {
  bool finite = true;
  std::size_t t = 0;
  for (; t + side_by_side <= tuned.size(); t += side_by_side)
    finite &= subtract<side_by_side>(&tuned[t], start, &out[t], n);
  for (; t + 2 <= tuned.size(); t += 2) finite &= subtract<2>(&tuned[t], start, &out[t], n);
  for (; t < tuned.size(); ++t) finite &= subtract<1>(&tuned[t], start, &out[t], n);
  return finite;
}

}  // namespace taugrid::weights
