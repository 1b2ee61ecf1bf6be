// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Replays the dealing of units on any number of ranks, by the clock of predicted or recorded seconds.
#pragma once

#include <vector>

#include "suite/schedule/work_unit.hpp"

namespace taugrid::plan {

/// What ranks of one host do to each other.
struct Host {
  int cores = 1;
  int threads = 1;      ///< of a rank
  double crowding = 1;  ///< how much longer a rank takes when others keep all the other cores busy

  /// How much longer a rank takes than alone, `busy` ranks of the host being at work: up to `crowding` while
  /// there are cores for all threads, in proportion to the threads beyond.
  double slowdown(double busy) const;
};

/// Ranks in order fill one host after the other, and form groups of neighbours.
struct Launch {
  int ranks = 1, ranks_per_unit = 1, ranks_per_host = 1;
  int groups() const { return ranks / ranks_per_unit; }
  int hosts() const { return (ranks + ranks_per_host - 1) / ranks_per_host; }
};

struct Replay {
  double seconds = 0;                    ///< from the first unit's start to the last one's end
  std::vector<std::vector<int>> groups;  ///< that compute the unit together
  std::vector<double> start, end;        ///< of each unit
};

/// `seconds`: of each unit on a host by itself. Units go to groups as run_units() deals them. Groups that ask
/// at the same time are served in order. A unit is as slow as the slowest of its ranks. The units have passed
/// check_units().
Replay replay(const std::vector<schedule::WorkUnit>& units, const std::vector<double>& seconds,
              const Launch& launch, const Host& host);

/// Seconds of the longest chain of units that wait for each other: no number of ranks ends sooner.
double longest_chain(const std::vector<schedule::WorkUnit>& units, const std::vector<double>& seconds);

/// The least number of ranks that ends within `share` (1.05: 5 %) of the time that any number takes.
int useful_ranks(const std::vector<schedule::WorkUnit>& units, const std::vector<double>& seconds,
                 const Launch& launch, const Host& host, double share);

}  // namespace taugrid::plan
