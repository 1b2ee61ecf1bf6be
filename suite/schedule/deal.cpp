// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/deal.hpp"

#include <algorithm>
#include <map>

namespace taugrid::schedule::detail {

Deal::Deal(const std::vector<WorkUnit>& units, const std::vector<bool>& done, int width, int groups)
    : units_(units), width_(width), groups_(groups), missing_(units.size()), followers_(units.size()) {
  std::map<std::string, int> index;
  for (std::size_t i = 0; i < units.size(); ++i) {
    index[units[i].key] = static_cast<int>(i);
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (done[i]) {
      continue;  // also where what it needs is computed again: that will be what it was
    }
    for (const auto& need : units[i].needs) {
      const auto entry = index.find(need);  // others are committed: check_units() saw to that
      if (entry != index.end() && !done[entry->second]) {
        missing_[i] += 1;
        followers_[entry->second].push_back(static_cast<int>(i));
      }
    }
    left_ += 1;
    if (missing_[i] == 0) {
      ready_.push_back(static_cast<int>(i));
    }
  }
}

int Deal::groups_of(int unit) const {
  return std::clamp((units_[unit].ranks + width_ - 1) / width_, 1, groups_);
}

std::optional<int> Deal::next(int idle) {
  const auto best = std::min_element(ready_.begin(), ready_.end(), [&](int a, int b) {
    return units_[a].cost != units_[b].cost ? units_[a].cost > units_[b].cost : a < b;
  });
  if (best == ready_.end() || groups_of(*best) > idle) {
    return std::nullopt;
  }
  const int unit = *best;
  ready_.erase(best);
  return unit;
}

void Deal::finish(int unit) {
  left_ -= 1;
  for (const int follower : followers_[unit]) {
    missing_[follower] -= 1;
    if (missing_[follower] == 0) {
      ready_.push_back(follower);
    }
  }
}

}  // namespace taugrid::schedule::detail
