// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_set>

#include "suite/data/packed.hpp"
#include "suite/error.hpp"

namespace taugrid::data {

namespace {

/// SplitMix64 (Steele, Lea, Flood 2014). The standard library's distributions differ between platforms.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}

  /// Uniform in 0 … bound-1. Draws that would favour small numbers are thrown away.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t reject = -bound % bound;
    std::uint64_t draw = next();
    while (draw < reject) {
      draw = next();
    }
    return draw % bound;
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
  }
  std::uint64_t state_;
};

}  // namespace

// Floyd's algorithm: `wanted` draws, however many rows there are.
at::Tensor sample_rows(std::int64_t rows, std::int64_t wanted, std::uint64_t seed) {
  if (wanted < 0 || wanted > rows) {
    throw InputError("cannot draw " + std::to_string(wanted) + " different rows; there are " +
                     std::to_string(rows));
  }
  Generator generator(seed);
  std::unordered_set<std::int64_t> chosen;
  for (std::int64_t last = rows - wanted; last < rows; ++last) {
    const auto row = static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(last) + 1));
    chosen.insert(chosen.contains(row) ? last : row);
  }
  std::vector<std::int64_t> sorted(chosen.begin(), chosen.end());
  std::sort(sorted.begin(), sorted.end());
  return at::tensor(sorted, at::kLong);
}

}  // namespace taugrid::data
