// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/detail/select_host.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/weights/detail/fetch.hpp"

namespace taugrid::weights::detail {
namespace {

constexpr int trailing = 20, leading_bins = 1 << (31 - trailing);

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
  const auto look = [&](float number) {
    const auto bits = bits_of(number);
    if (bits >> trailing == bin) ++histogram[bits & ((1U << trailing) - 1)];
  };
  std::int64_t i = 0;
  for (; i + line <= n; i += line) {  // most have none
    int inside = 0;
    for (auto j = i; j < i + line; ++j) inside += bits_of(x[j]) >> trailing == bin ? 1 : 0;
    if (inside == 0) continue;
    for (auto j = i; j < i + line; ++j) look(x[j]);
  }
  for (; i < n; ++i) look(x[i]);
}

void sample_leading(const float* x, const float* start, std::int64_t n, std::int64_t every,
                    std::uint64_t* histogram) {
  const auto ahead = 16 * every;  // pages that memory looks for side by side
  const auto fetch = [&](std::int64_t at) __attribute__((always_inline)) {
    if (at + looked_at > n) return;
    for (const auto i : {std::int64_t{0}, line, looked_at - 1}) {  // in files lines of memory begin anywhere
      fetch_line(x + at + i);
      if (start != nullptr) fetch_line(start + at + i);
    }
  };
  for (std::int64_t from = 0; from < ahead; from += every) fetch(from);
  for (std::int64_t from = 0; from < n; from += every) {
    fetch(from + ahead);
    const auto end = std::min(n, from + looked_at);
    for (auto i = from; i < end; ++i)
      ++histogram[bits_of(start != nullptr ? x[i] - start[i] : x[i]) >> sample_shift];
  }
}

#if defined(__AVX512F__)
// As fast as memory gives numbers, however many are inside: compilers do not compress by themselves.
void collect_between(const float* x, const float* start, std::int64_t n, std::uint32_t low,
                     std::uint32_t high, std::int64_t& above, std::vector<float>& inside) {
  constexpr std::int64_t block = 1024, ahead = 2 * block;
  std::array<float, block + line> kept;
  const auto all_of = [](std::uint32_t bits) { return _mm512_set1_epi32(static_cast<int>(bits)); };
  const auto sign_off = all_of(magnitude), least = all_of(low), width = all_of(high - low);
  for (std::int64_t from = 0; from < n; from += block) {
    const auto m = std::min(block, n - from);
    std::size_t count = 0;
    std::int64_t below = 0;
    for (std::int64_t i = 0; i < m; i += line) {
      const auto at = from + i;
      if (at + ahead < n) fetch_line(x + at + ahead);
      const auto there = static_cast<__mmask16>(m - i >= line ? 0xffff : (1 << (m - i)) - 1);
      const auto y = _mm512_maskz_loadu_ps(there, x + at);
      const auto tau = start != nullptr ? _mm512_sub_ps(y, _mm512_maskz_loadu_ps(there, start + at)) : y;
      const auto bits = _mm512_and_epi32(_mm512_castps_si512(tau), sign_off);
      const auto in = _mm512_mask_cmplt_epu32_mask(there, _mm512_sub_epi32(bits, least), width);
      _mm512_storeu_si512(kept.data() + count, _mm512_maskz_compress_epi32(in, bits));
      count += static_cast<std::size_t>(std::popcount(static_cast<std::uint16_t>(in)));
      const auto under = _mm512_mask_cmplt_epu32_mask(there, bits, least);
      below += std::popcount(static_cast<std::uint16_t>(under));
    }
    above += m - below - static_cast<std::int64_t>(count);
    inside.insert(inside.end(), kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count));
  }
}
#else
namespace {

// Flags of a block are made by a loop that compilers vectorise; words of eight flags that are not all zero
// are listed without a branch, which chance would mispredict.
template <class Number>
void collect(const Number& number, const float* x, std::int64_t n, std::uint32_t low, std::uint32_t high,
             std::int64_t& above, std::vector<float>& inside) {
  static_assert(std::endian::native == std::endian::little, "a word's first flag is its lowest byte");
  constexpr int block = 1024, words = block / 8;
  alignas(64) std::array<std::uint8_t, block> flags;
  std::array<std::uint64_t, words> word;
  std::array<std::uint8_t, words> listed;
  const auto width = high - low;
  for (std::int64_t from = 0; from < n; from += block) {
    const auto m = static_cast<int>(std::min<std::int64_t>(block, n - from));
    const float* y = x + from;
    int larger = 0;
    const auto look = [&](int i) {
      const auto bits = bits_of(number(from + i));
      larger += bits >= high ? 1 : 0;
      flags[static_cast<std::size_t>(i)] = bits - low < width ? 1 : 0;
    };
    if (from + 2 * block <= n) {
      for (int strip = 0; strip < block; strip += 4 * line) {
        for (int i = 0; i < 4; ++i) fetch_line(y + block + strip + i * line);
        for (int i = strip; i < strip + 4 * line; ++i) look(i);
      }
    } else {
      for (int i = 0; i < m; ++i) look(i);
    }
    above += larger;
    std::fill(flags.begin() + m, flags.end(), std::uint8_t{0});
    std::memcpy(word.data(), flags.data(), sizeof word);
    std::size_t count = 0;
    for (std::size_t k = 0; k < words; ++k) {
      listed[count] = static_cast<std::uint8_t>(k);
      count += word[k] != 0 ? 1 : 0;
    }
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t k = listed[j];
      for (auto rest = word[k]; rest != 0; rest &= rest - 1)
        inside.push_back(
            std::fabs(number(from + static_cast<std::int64_t>(8 * k) + std::countr_zero(rest) / 8)));
    }
  }
}

}  // namespace

void collect_between(const float* x, const float* start, std::int64_t n, std::uint32_t low,
                     std::uint32_t high, std::int64_t& above, std::vector<float>& inside) {
  if (start == nullptr) {
    collect([x](std::int64_t i) { return x[i]; }, x, n, low, high, above, inside);
  } else {
    collect([x, start](std::int64_t i) { return x[i] - start[i]; }, x, n, low, high, above, inside);
  }
}
#endif

void add_magnitudes(const float* x, std::int64_t n, std::int64_t place, std::array<double, line>& sums) {
  const auto add = [&](std::int64_t i) {
    sums[static_cast<std::size_t>((place + i) % line)] += static_cast<double>(std::fabs(x[i]));
  };
  const auto head = std::min(n, (line - place % line) % line), lines = (n - head) / line;
  for (std::int64_t i = 0; i < head; ++i) add(i);
  auto local = sums;
  for (std::int64_t l = 0; l < lines; ++l) {
    const float* y = x + head + l * line;
    for (std::size_t i = 0; i < line; ++i) local[i] += static_cast<double>(std::fabs(y[i]));
  }
  sums = local;
  for (auto i = head + lines * line; i < n; ++i) add(i);
}

}  // namespace taugrid::weights::detail
