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

/// What is known of numbers of τ that are made.
struct Counted {
  Range range = {};
  std::int64_t nonzero = 0;
  /// Where signs are elected: places whose sum is zero although some numbers are not, and places that elected
  /// + less those that elected −.
  std::int64_t undecided = 0, balance = 0;
};

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

  /// What lasts from one start to the next, where numbers stay that an earlier one has put.
  class Journal {
   public:
    virtual ~Journal() = default;
    /// The parts of a range that no earlier start has finished.
    virtual std::vector<Range> left(Range range) const = 0;
    /// What earlier starts have finished, of all ranks.
    virtual std::vector<Counted> earlier() const = 0;
    virtual void finish(const Counted& counted) = 0;
  };
  /// The journal outlives it.
  Sink(See see, Journal& journal) : see_(std::move(see)), journal_(&journal) {}
  std::vector<Range> left(Range range) const {
    return journal_ != nullptr ? journal_->left(range) : std::vector<Range>{range};
  }
  std::vector<Counted> earlier() const {
    return journal_ != nullptr ? journal_->earlier() : std::vector<Counted>{};
  }

  /// Where n numbers are made, before they are put: where they will stay, or `buffer`, which grows to hold
  /// them.
  at::Tensor place(std::int64_t begin, std::int64_t n, at::Tensor& buffer) const;
  void put(std::int64_t begin, const at::Tensor& tau) const;
  /// The same of numbers that are final but for what an election's majority may change.
  void put(const at::Tensor& tau, const Counted& counted) const;

 private:
  at::Tensor whole_;
  See see_;
  Journal* journal_ = nullptr;
};

}  // namespace taugrid::merging
