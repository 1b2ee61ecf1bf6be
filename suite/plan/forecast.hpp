// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// From units and a profile to seconds, bytes and files, on any number of ranks.
#pragma once

#include <string>
#include <vector>

#include "suite/ledger/outputs.hpp"
#include "suite/plan/profile.hpp"
#include "suite/plan/replay.hpp"
#include "suite/study/study.hpp"

namespace taugrid::plan {

/// Seconds of each unit on a host by itself, of so many ranks, its reading, asking and committing included.
/// Measured ones go before predicted ones. What ranks exchange takes what they measured together, or, where
/// they have not, what memory does; sums beside a backward pass count whole.
std::vector<double> unit_seconds(const std::vector<schedule::WorkUnit>& units, const Profile& profile,
                                 int ranks);

/// The kinds of work that the profile lacks and the units need, those that it has seconds of aside.
std::vector<std::string> missing_rates(const std::vector<schedule::WorkUnit>& units, const Profile& profile);

/// Units that the profile has no seconds of.
std::vector<const schedule::WorkUnit*> untraced(const std::vector<schedule::WorkUnit>& units,
                                                const Profile& profile);

struct Row {
  int ranks = 0, hosts = 0;
  int idle = 0;              ///< ranks beyond a multiple of ranks_per_unit
  double seconds = 0;        ///< of the whole run: its start, its units, results.h5
  double units_seconds = 0;  ///< of the units alone
  double efficiency = 0;     ///< against one group
  double memory = 0;         ///< bytes of the rank that needs most
  double units_a_rank = 0;
  bool waits_for_storage = false;
};

struct Forecast {
  std::vector<Row> rows;
  double start_seconds = 0, end_seconds = 0;  ///< of one group, before and after the units
  double longest_chain = 0;                   ///< seconds
  double storage_seconds = 0;  ///< of all units' files, as fast as ranks together write; 0: not known
  int useful_ranks = 0;        ///< more end less than 5 % sooner
  double stored = 0;           ///< bytes of the run folder
  std::int64_t files = 0;      ///< in it, logs aside
  double results = 0;          ///< bytes of results.h5 among them
  std::vector<std::string> warnings;
};

/// `results`: what a run writes into results.h5 beside the table of its units. `ranks_per_host` 0: one for
/// each `threads_per_rank` cores of the profile's host.
Forecast forecast(const study::Study& study, const std::vector<schedule::WorkUnit>& units,
                  const ledger::Contents::Size& results, const std::vector<double>& seconds,
                  const Profile& profile, const std::vector<int>& ranks, int ranks_per_host);

/// "1 h 02 min", "3 min 05 s", "12 s".
std::string duration(double seconds);
/// "1.2 GiB"
std::string size(double bytes);

}  // namespace taugrid::plan
