// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The ranks that make one merge together, each its share of what can be shared. Numbers do not depend on how
// many they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "suite/comm/communicator.hpp"

namespace taugrid::merging {

class Team {
 public:
  /// One rank alone.
  Team() = default;
  /// The group outlives it, and all its ranks make the same calls.
  explicit Team(const comm::Communicator& group) : group_(group.size() > 1 ? &group : nullptr) {}

  int size() const { return group_ != nullptr ? group_->size() : 1; }
  int rank() const { return group_ != nullptr ? group_->rank() : 0; }
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

 private:
  const comm::Communicator* group_ = nullptr;
};

}  // namespace taugrid::merging
