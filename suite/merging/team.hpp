// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The ranks that make one merge together, each its share of what can be shared. Numbers do not depend on how
// many they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "suite/comm/communicator.hpp"

namespace taugrid::merging {

class Team {
 public:
  /// One rank alone.
  Team() = default;
  /// Where a merge's numbers are wanted: by every rank, or each by the rank that makes it, because it writes
  /// it.
  enum class Wanted { everywhere, where_made };
  /// The group outlives it, and all its ranks make the same calls.
  explicit Team(const comm::Communicator& group, Wanted wanted = Wanted::everywhere)
      : group_(group.size() > 1 ? &group : nullptr), wanted_(wanted) {}

  int size() const { return group_ != nullptr ? group_->size() : 1; }
  int rank() const { return group_ != nullptr ? group_->rank() : 0; }
  bool keeps_apart() const { return group_ != nullptr && wanted_ == Wanted::where_made; }
  /// The same ranks, all of which want every number.
  Team gathering() const { return group_ != nullptr ? Team(*group_) : Team(); }
  /// This rank's part of a range, in rank order.
  Range share_of(Range range) const {
    if (group_ == nullptr) return range;
    const auto part = group_->share_of(range.count);
    return {range.begin + part.begin, part.count};
  }
  /// Whether the i-th of several equal pieces of work is this rank's.
  bool is_mine(std::size_t i) const {
    return i % static_cast<std::size_t>(size()) == static_cast<std::size_t>(rank());
  }

  /// Numbers of a rank that are gathered at once: few enough for any memory, and enough that a call's own
  /// cost does not count.
  static constexpr std::int64_t gathered_at_once = std::int64_t{1} << 20;
  /// Float32 numbers of each rank, end to end: [n] → [size·n].
  at::Tensor gathered(const at::Tensor& mine) const {
    return group_ != nullptr ? group_->all_gather(mine, "merged numbers") : mine;
  }
  /// Σ over ranks, number by number.
  std::vector<std::int64_t> sums(const std::vector<std::int64_t>& mine) const;
  /// Numbers of each rank, as many as it has, end to end.
  std::vector<std::int64_t> joined(const std::vector<std::int64_t>& mine) const;
  std::vector<float> joined(const std::vector<float>& mine) const;
  /// The first rank's text, on all.
  std::string of_first(std::string text, std::string_view what) const {
    if (group_ != nullptr) group_->broadcast(text, 0, what);
    return text;
  }
  void wait_for_all(std::string_view what) const {
    if (group_ != nullptr) group_->patient_barrier(what);
  }

 private:
  const comm::Communicator* group_ = nullptr;
  Wanted wanted_ = Wanted::everywhere;
};

}  // namespace taugrid::merging
