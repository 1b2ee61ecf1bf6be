// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace taugrid::tangent::detail {

constexpr std::int64_t samples_at_once = 8;  // rows of the kernel: by tokens, rows enough for a product

/// What of the kernel is computed: rows begin … end, all columns; if those are all rows, the pieces on and
/// right of the diagonal alone, K being symmetric.
struct Window {
  std::int64_t n, begin, end;
  bool symmetric() const { return begin == 0 && end == n; }
  std::int64_t rows() const { return end - begin; }
  double fraction() const {
    const auto pieces = (rows() + samples_at_once - 1) / samples_at_once;
    return symmetric() ? static_cast<double>(pieces + 1) / static_cast<double>(2 * pieces) : 1;
  }
  /// f(first row, end of rows, first column), piece by piece.
  template <class F>
  void each_piece(const F& f) const {
    for (auto i = begin; i < end; i += samples_at_once)
      f(i, std::min(end, i + samples_at_once), symmetric() ? i : 0);
  }
};

}  // namespace taugrid::tangent::detail
