// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Deals work units to groups of ranks until all are committed or a stop is wanted.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/comm/runtime.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/schedule/work_unit.hpp"

namespace taugrid::schedule {

struct Options {
  int ranks_per_unit = 1;
  std::optional<double> time_limit = std::nullopt;  ///< seconds since the runtime began
  bool show_progress = true;
  std::map<std::string, std::string> header = {};  ///< goes into that of each unit: what computed it
  /// This rank's joules so far, NaN where nothing counts them, and what counts. On all ranks, or on none.
  std::function<double()> joules = {};
  std::string energy_source = {};
};

/// What happened, the same on every rank.
struct RunReport {
  int computed = 0;  ///< in this run
  int skipped = 0;   ///< committed before
  double seconds = 0;
};

/// Collective over all ranks, with the same units on each. Ranks form groups of ranks_per_unit neighbours
/// (what is left over idles, with a warning); the dearest unit whose needs are committed, or one at least
/// half as dear on a task that the group knows, goes to the group that asks first, or, where it wants more
/// ranks, to the groups that do. Units that are committed are skipped; each finished one is committed by its
/// group's rank 0 with the metadata key, rank, seconds, device, and, where they are counted, joules of all
/// its ranks and energy_source. Throws InputError where a need is missing or circular, a key double, or
/// ranks_per_unit above the number of ranks; Interrupted on all ranks after a stop request that left work to
/// do.
RunReport run_units(comm::Runtime& runtime, const RunFolder& folder, std::vector<WorkUnit> units,
                    const Options& options);

/// The check of run_units alone: a key that is double or unfit for a file name, a need that is neither among
/// the units nor `there`, a cycle (named in order). Throws InputError.
void check_units(const std::vector<WorkUnit>& units,
                 const std::function<bool(const std::string&)>& there = {});

}  // namespace taugrid::schedule
