// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Where a merge's τ goes, stretch by stretch: memory that has room for all of it, or a visitor.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/range.hpp"

namespace taugrid::merging {

/// Every number comes, some of them a second time: the latest counts. All ranks of a team get all of them, in
/// the same stretches; of one that keeps apart, each gets what it made.
class Sink {
 public:
  /// Numbers begin … of τ: float32, on the host, until the call ends.
  using See = std::function<void(std::int64_t begin, const at::Tensor& tau)>;
  template <std::invocable<std::int64_t, const at::Tensor&> F>
  Sink(F see) : see_(std::move(see)) {}
  /// τ [P] is kept in `whole`; see() is called when a stretch is there.
  explicit Sink(
      at::Tensor whole, See see = [](std::int64_t, const at::Tensor&) {})
      : whole_(std::move(whole)), see_(std::move(see)) {}

  /// The parts of a range that are wanted still, where an earlier start has finished some.
  using Left = std::function<std::vector<Range>(Range)>;
  Sink(See see, Left left) : see_(std::move(see)), left_(std::move(left)) {}
  std::vector<Range> left(Range range) const { return left_ ? left_(range) : std::vector<Range>{range}; }

  /// Where n numbers are made, before they are put: where they will stay, or `buffer`, which grows to hold
  /// them.
  at::Tensor place(std::int64_t begin, std::int64_t n, at::Tensor& buffer) const;
  void put(std::int64_t begin, const at::Tensor& tau) const;

 private:
  at::Tensor whole_;
  See see_;
  Left left_;
};

}  // namespace taugrid::merging
