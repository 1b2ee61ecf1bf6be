// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/deal.hpp"

#include <algorithm>
#include <map>

namespace taugrid::schedule::detail {

namespace {

// What a familiar unit costs at least, as a share of the dearest's cost. Much dearer ones are not put off:
// begun last, one would end long after all others.
constexpr double dear_enough = 0.5;

}  // namespace

Deal::Deal(const std::vector<WorkUnit>& units, const std::vector<bool>& done, int width, int groups)
    : units_(units), width_(width), groups_(groups), missing_(units.size()), followers_(units.size()) {
  std::map<std::string, int> index, subjects;
  for (std::size_t i = 0; i < units.size(); ++i) {
    index[units[i].key] = static_cast<int>(i);
    subjects_.push_back(
        subjects.try_emplace(subject_of(units[i].key), static_cast<int>(subjects.size())).first->second);
  }
  had_.resize(static_cast<std::size_t>(groups));
  had_by_any_.resize(subjects.size());
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

int Deal::groups_for(int ranks, int width, int groups) {
  return std::clamp((ranks + width - 1) / width, 1, groups);
}

int Deal::groups_of(int unit) const { return groups_for(units_[unit].ranks, width_, groups_); }

std::optional<int> Deal::next(int idle, int group) {
  const auto dearer = [&](int a, int b) {
    return units_[a].cost != units_[b].cost ? units_[a].cost > units_[b].cost : a < b;
  };
  auto best = std::min_element(ready_.begin(), ready_.end(), dearer);
  if (best == ready_.end() || groups_of(*best) > idle) {
    return std::nullopt;
  }
  auto& had = had_[static_cast<std::size_t>(group)];
  had.resize(had_by_any_.size());
  if (groups_of(*best) == 1) {
    const auto familiar = [&](int unit) {
      return had[subjects_[unit]] ? 2 : had_by_any_[subjects_[unit]] ? 0 : 1;
    };
    const double least = dear_enough * units_[*best].cost;
    for (auto it = ready_.begin(); it != ready_.end(); ++it) {
      if (units_[*it].cost < least || groups_of(*it) > 1) continue;
      const int more = familiar(*it) - familiar(*best);
      if (more > 0 || (more == 0 && dearer(*it, *best))) best = it;
    }
  }
  const int unit = *best;
  had[subjects_[unit]] = had_by_any_[subjects_[unit]] = true;
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
