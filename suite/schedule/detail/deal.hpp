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
  /// `done`: one flag a unit. The units have passed check_units().
  Deal(const std::vector<WorkUnit>& units, const std::vector<bool>& done);

  /// The dearest unit whose needs are done and that nobody has (the first of equals); nothing where none is
  /// ready.
  std::optional<int> next();
  void finish(int unit);
  bool all_done() const { return left_ == 0; }
  int left() const { return left_; }

 private:
  const std::vector<WorkUnit>& units_;
  std::vector<int> missing_;                 // a unit's needs that are not done
  std::vector<std::vector<int>> followers_;  // units that need it
  std::vector<int> ready_;
  int left_ = 0;
};

}  // namespace taugrid::schedule::detail
