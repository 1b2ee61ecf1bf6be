// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/masks.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "kernels/require.hpp"
#include "kernels/weights/detail/checks.hpp"
#include "kernels/weights/detail/select_host.hpp"

namespace taugrid::weights {
namespace {

constexpr std::int64_t word_bits = 64, words = 32, block_of_bits = word_bits * words;

}  // namespace

std::int64_t ties_rank(double density, std::int64_t n) {
  return std::min(static_cast<std::int64_t>(density * static_cast<double>(n)) + 1, n);
}

MaskCount::MaskCount(std::span<const float> cuts)
    : kept_(cuts.size() * words),
      negative_(cuts.size() * words),
      both_(cuts.size() * (cuts.size() + 1) / 2),
      unlike_(both_.size()) {
  for (const float cut : cuts) least_.push_back(std::max(detail::bits_of(cut), 1U));
}

// A block of each vector becomes bits, and pairs are words of these.
void MaskCount::add(const Stretches& tau) {
  require(tau.x.size() == least_.size(), "a stretch of " + std::to_string(tau.x.size()) +
                                             " vectors, expected " + std::to_string(least_.size()));
  if (tau.x.empty()) return;
  const auto& first = tau.x.front();
  detail::check_vector(first, "vectors[0]");
  detail::check_vectors(tau.x, first, "vectors");
  if (tau.start.defined()) detail::check_vectors({&tau.start, 1}, first, "start");
  require(first.scalar_type() == at::kFloat && first.is_cpu(), "vectors[0] is not float32 on the host");
  const auto length = first.numel();
  std::vector<const float*> x;
  for (const auto& stretch : tau.x) x.push_back(stretch.const_data_ptr<float>());
  const auto* start = tau.start.defined() ? tau.start.const_data_ptr<float>() : nullptr;
  std::array<float, word_bits> difference{};
  for (std::int64_t begin = 0; begin < length; begin += block_of_bits) {
    const auto used = (std::min(block_of_bits, length - begin) + word_bits - 1) / word_bits;
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::int64_t w = 0; w < used; ++w) {
        const auto from = begin + w * word_bits;
        const auto n = std::min(word_bits, length - from);
        const auto* numbers = x[t] + from;
        if (start != nullptr) {
          for (std::int64_t i = 0; i < n; ++i) difference[i] = numbers[i] - start[from + i];
          numbers = difference.data();
        }
        std::uint64_t kept = 0, negative = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const auto bits = std::bit_cast<std::uint32_t>(numbers[i]);
          kept |= std::uint64_t{(bits & detail::magnitude) >= least_[t]} << i;
          negative |= std::uint64_t{bits >> 31} << i;
        }
        const auto place = t * words + static_cast<std::size_t>(w);
        kept_[place] = kept;
        negative_[place] = negative;
      }
    }
    std::size_t pair = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (auto j = i; j < x.size(); ++j, ++pair) {
        int both = 0, unlike = 0;
        for (std::size_t w = 0; w < static_cast<std::size_t>(used); ++w) {
          const auto kept = kept_[i * words + w] & kept_[j * words + w];
          both += std::popcount(kept);
          unlike += std::popcount(kept & (negative_[i * words + w] ^ negative_[j * words + w]));
        }
        both_[pair] += both;
        unlike_[pair] += unlike;
      }
    }
  }
}

at::Tensor MaskCount::counts() const {
  const auto t = static_cast<std::int64_t>(least_.size());
  auto counts = at::empty({2, t, t}, at::kDouble);
  auto all = counts.accessor<double, 3>();
  std::size_t pair = 0;
  for (std::int64_t i = 0; i < t; ++i) {
    for (auto j = i; j < t; ++j, ++pair) {
      all[0][i][j] = all[0][j][i] = static_cast<double>(both_[pair]);
      all[1][i][j] = all[1][j][i] = static_cast<double>(unlike_[pair]);
    }
  }
  return counts;
}

}  // namespace taugrid::weights
