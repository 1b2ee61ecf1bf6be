// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which unit comes next: the order of dealing, apart from messages.
#pragma once

#include <optional>
#include <vector>

#include "suite/schedule/work_unit.hpp"

namespace taugrid::schedule::detail {

class Deal {
 public:
  /// `done`: one flag a unit. `groups` of `width` ranks each compute. The units have passed check_units().
  Deal(const std::vector<WorkUnit>& units, const std::vector<bool>& done, int width = 1, int groups = 1);

  /// The unit for a group that asks, of those whose needs are done and that nobody has: the dearest (the
  /// first of equals), or one at least half as dear whose subject this group has had, and else nobody: what
  /// it has read of a task, and what frozen stages made of that, it still has. Nothing where none is ready,
  /// or where the dearest wants more groups than the `idle` ones: it waits for them, and others wait behind
  /// it.
  std::optional<int> next(int idle = 1, int group = 0);
  /// How many of `groups` of `width` ranks compute a unit together that is for `ranks`.
  static int groups_for(int ranks, int width, int groups);
  int groups_of(int unit) const;
  void finish(int unit);
  bool all_done() const { return left_ == 0; }
  int left() const { return left_; }

 private:
  const std::vector<WorkUnit>& units_;
  int width_, groups_;
  std::vector<int> missing_;                 // a unit's needs that are not done
  std::vector<std::vector<int>> followers_;  // units that need it
  std::vector<int> ready_;
  int left_ = 0;
  std::vector<int> subjects_;           // each unit's, numbered
  std::vector<std::vector<bool>> had_;  // a flag a group and subject
  std::vector<bool> had_by_any_;        // a flag a subject
};

}  // namespace taugrid::schedule::detail
