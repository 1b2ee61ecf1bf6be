// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Inner products of all pairs over one stretch of the vectors, on one host thread.
//
// Block by block: each vector's block becomes double once, in cache, after θ0 was subtracted where the
// vectors are models; then tiles of pairs run over it, each pair with its sums in one register of lanes.
// Explicit lanes, since a compiler may not reorder a sum by itself. While one block is worked on, the
// vectors' next is fetched: so memory never waits for arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace taugrid::weights::detail {

/// Lanes of a register, and the largest tile: Tile² sums and 2·Tile operands fit the register file.
#if defined(__AVX512F__)
inline constexpr int gram_lanes = 8, gram_tile = 4;
#elif defined(__AVX__)
inline constexpr int gram_lanes = 4, gram_tile = 2;
#else
inline constexpr int gram_lanes = 2, gram_tile = 2;
#endif
inline constexpr int gram_block = 128;

/// Tile by Tile pairs at a time. A pair's value does not depend on Tile.
template <class Scalar, int Tile>
class HostGram {
 public:
  /// Takes the vectors, or what is left of each when start is subtracted, where there is one.
  HostGram(const Scalar* const* vectors, int count, const Scalar* start)
      : vectors_(vectors),
        start_(start),
        count_(count),
        padded_((count + Tile - 1) / Tile * Tile),
        tiles_(padded_ / Tile),
        blocks_(static_cast<std::size_t>(padded_) * gram_block /
                Line::numbers),  // zeros: rows beyond count stay so
        rows_(static_cast<std::size_t>(padded_)),
        sums_((static_cast<std::size_t>(tiles_) * (tiles_ + 1) / 2 * tile_numbers + Line::numbers - 1) /
              Line::numbers) {}

  /// sums [count·(count+1)/2], pairs (0,0),(0,1),…,(1,1),…, of elements begin … end.
  void operator()(std::int64_t begin, std::int64_t end, double* sums) {
    std::fill(sums_.begin(), sums_.end(), Line{});
    for (std::int64_t at = begin; at < end; at += gram_block) {
      load_block(at, static_cast<int>(std::min<std::int64_t>(gram_block, end - at)));
      const bool more = at + std::int64_t{2} * gram_block <= end;
      double* tile_sums = sums_.data()->at;
      for (int i = 0; i < padded_; i += Tile) {
        if (more) {
          tile<true, true>(i, i, tile_sums, at + gram_block);
        } else {
          tile<true, false>(i, i, tile_sums, 0);
        }
        tile_sums += tile_numbers;
        for (int j = i + Tile; j < padded_; j += Tile, tile_sums += tile_numbers) {
          tile<false, false>(i, j, tile_sums, 0);
        }
      }
    }
    for (int i = 0; i < count_; ++i) {
      for (int j = i; j < count_; ++j) *sums++ = sum_of_pair(i, j);
    }
  }

 private:
  using Lanes = double __attribute__((vector_size(gram_lanes * sizeof(double))));
  /// A line of the cache: a register that is loaded from two of them takes twice as long.
  struct alignas(64) Line {
    static constexpr std::size_t numbers = 8;
    double at[numbers] = {};
  };
  static constexpr std::ptrdiff_t tile_numbers = std::ptrdiff_t{Tile} * Tile * gram_lanes;

  void load_block(std::int64_t at, int size) {
    for (int t = 0; t < padded_; ++t) {
      double* block = blocks_.data()->at + static_cast<std::ptrdiff_t>(t) * gram_block;
      rows_[t] = block;
      if (t >= count_) continue;
      if constexpr (sizeof(Scalar) == sizeof(double)) {
        if (size == gram_block && start_ == nullptr) {
          rows_[t] = vectors_[t] + at;
          continue;
        }
      }
      const Scalar* from = vectors_[t] + at;
      if (start_ != nullptr) {
        subtract(from, start_ + at, size, block);
      } else if (size == gram_block) {
        for (int i = 0; i < gram_block; ++i) block[i] = from[i];
      } else {
        std::copy_n(from, size, block);
      }
      std::fill(block + size, block + gram_block, 0.0);
    }
  }

  /// Rounded to Scalar, as the differences are that others store.
  static void subtract(const Scalar* from, const Scalar* start, int size, double* out) {
    for (int i = 0; i < size; ++i) out[i] = from[i] - start[i];
  }

  static Lanes load(const double* from) {
    Lanes lanes;
    std::memcpy(&lanes, from, sizeof(lanes));
    return lanes;
  }
  static void store(double* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof(lanes)); }

  template <bool Diagonal, bool Prefetch>
  void tile(int i, int j, double* sums, std::int64_t next) const {
    const double* left[Tile];
    const double* right[Tile];
    const Scalar* ahead[Tile];
    Lanes sum[Tile][Tile];
    for (int r = 0; r < Tile; ++r) {
      left[r] = rows_[i + r];
      right[r] = rows_[j + r];
      ahead[r] = vectors_[std::min(i + r, count_ - 1)] + next;
      for (int c = 0; c < Tile; ++c) sum[r][c] = load(sums + (r * Tile + c) * gram_lanes);
    }
    for (int k = 0; k < gram_block; k += gram_lanes) {
      Lanes x[Tile], y[Tile];
      for (int r = 0; r < Tile; ++r) {
        if constexpr (Prefetch) __builtin_prefetch(ahead[r] + k);
        x[r] = load(left[r] + k);
        y[r] = Diagonal ? x[r] : load(right[r] + k);
      }
      for (int r = 0; r < Tile; ++r) {
        for (int c = Diagonal ? r : 0; c < Tile; ++c) sum[r][c] += x[r] * y[c];
      }
    }
    for (int r = 0; r < Tile; ++r) {
      for (int c = 0; c < Tile; ++c) store(sums + (r * Tile + c) * gram_lanes, sum[r][c]);
    }
  }

  double sum_of_pair(int i, int j) const {
    const int row = i / Tile, column = j / Tile;
    const int tiles_above = row * tiles_ - row * (row - 1) / 2;
    const double* lanes = sums_.data()->at + (tiles_above + column - row) * tile_numbers +
                          std::ptrdiff_t{i % Tile * Tile + j % Tile} * gram_lanes;
    double total = 0;
    for (int l = 0; l < gram_lanes; ++l) total += lanes[l];
    return total;
  }

  const Scalar* const* vectors_;
  const Scalar* start_;
  int count_, padded_, tiles_;
  std::vector<Line> blocks_;
  std::vector<const double*> rows_;
  std::vector<Line> sums_;  // of each tile, pair and lane: a device compiler knows no vector of Lanes
};

}  // namespace taugrid::weights::detail
