// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/bfloat16.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/weights/detail/bits.hpp"
#include "kernels/weights/detail/fetch.hpp"
#include "kernels/weights/subtract.hpp"

namespace taugrid::weights {
namespace {

constexpr int upper = 16;  // bits

constexpr std::int64_t line = 32;  // numbers

float wide(std::uint16_t x) { return std::bit_cast<float>(std::uint32_t{x} << upper); }
float wide(float x) { return x; }

/// As of float32 (subtract.cpp): a processor reads a few streams faster than one.
template <std::size_t Count, class Start>
bool subtract(const std::uint16_t* const* tuned, const Start* start, float* const* out, std::int64_t n) {
  constexpr std::int64_t ahead = 2048 / Count;
  std::array<const std::uint16_t*, Count> x;
  std::array<float*, Count> to;
  std::copy_n(tuned, Count, x.begin());
  std::copy_n(out, Count, to.begin());
  std::array<std::uint32_t, line> largest = {};
  std::array<float, line> base = {};
  for (std::int64_t i = 0; i < n; i += line) {
    const auto width = std::min(line, n - i);
    const auto there = std::min(i + ahead, n - 1);
    if (start != nullptr) detail::fetch_line(start + there);
    for (std::size_t t = 0; t < Count; ++t) detail::fetch_line(x[t] + there);
    const auto each = [&](std::int64_t count) {
      if (start != nullptr)
        for (std::int64_t j = 0; j < count; ++j) base[static_cast<std::size_t>(j)] = wide(start[i + j]);
      for (std::size_t t = 0; t < Count; ++t) {
        for (std::int64_t j = 0; j < count; ++j) {
          const auto k = static_cast<std::size_t>(j);
          const float tau = wide(x[t][i + j]) - base[k];
          to[t][i + j] = tau;
          largest[k] = std::max(largest[k], detail::bits_of(tau));
        }
      }
    };
    if (width == line) {
      each(line);  // of a known length
    } else {
      each(width);
    }
  }
  return *std::max_element(largest.begin(), largest.end()) < detail::infinity;
}

template <class Start>
bool subtract_all(std::span<const std::uint16_t* const> tuned, const Start* start,
                  std::span<float* const> out, std::int64_t n) {
  bool finite = true;
  std::size_t t = 0;
  static_assert(side_by_side == 4);
  for (; t + side_by_side <= tuned.size(); t += side_by_side)
    finite &= subtract<side_by_side>(&tuned[t], start, &out[t], n);
  switch (tuned.size() - t) {
    case 3:
      return subtract<3>(&tuned[t], start, &out[t], n) && finite;
    case 2:
      return subtract<2>(&tuned[t], start, &out[t], n) && finite;
    case 1:
      return subtract<1>(&tuned[t], start, &out[t], n) && finite;
    default:
      return finite;
  }
}

}  // namespace

void widen(const std::uint16_t* x, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = wide(x[i]);
}

bool subtract(std::span<const std::uint16_t* const> tuned, const std::uint16_t* start,
              std::span<float* const> out, std::int64_t n) {
  return subtract_all(tuned, start, out, n);
}

bool subtract(std::span<const std::uint16_t* const> tuned, const float* start, std::span<float* const> out,
              std::int64_t n) {
  return subtract_all(tuned, start, out, n);
}

bool narrow(const float* x, std::uint16_t* out, std::int64_t n) {
  constexpr std::uint32_t half = 0x7fff, quiet = 0x7fc0;
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const auto rounded = (bits + half + (bits >> upper & 1)) >> upper;
    const auto y = (bits & detail::magnitude) > detail::infinity ? quiet : rounded;
    out[i] = static_cast<std::uint16_t>(y);
    largest = std::max(largest, y << upper & detail::magnitude);
  }
  return largest < detail::infinity;
}

}  // namespace taugrid::weights
