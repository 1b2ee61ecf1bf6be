// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A work unit: the smallest thing that is computed, committed and never computed again.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/comm/stop.hpp"
#include "suite/schedule/load.hpp"
#include "suite/store/safetensors.hpp"

namespace taugrid::schedule {

/// What a unit gets to work with, the same on all ranks of its group.
struct UnitContext {
  const comm::Communicator& group;
  const comm::StopRequest& stop;
  /// Exists, is this unit's own, survives a kill: checkpoints within the unit. Removed once the unit is
  /// committed.
  std::filesystem::path scratch;
  /// Tells the progress line the share done so far, and a few words. Only the group's rank 0 is heard; cheap,
  /// call it often.
  std::function<void(double fraction, std::string_view detail)> progress;

  /// A safe point: throws Interrupted on all ranks of the group if a stop is wanted. Collective over the
  /// group.
  void stop_if_requested() const { stop.throw_if_requested(group, "unit"); }
};

struct WorkUnit {
  std::string key;  ///< "finetune/standard/fashion": letters, digits and . _ - + between slashes
  double cost = 1;  ///< predicted time, in any unit common to all
  std::vector<std::string> needs;  ///< keys of units whose results compute() reads
  /// Called on all its ranks; rank 0's result is committed. Depends on nothing but its needs, its
  /// seed and the group's size. Any exception but Interrupted ends the whole run.
  std::function<store::TensorFile(UnitContext&)> compute;
  /// Whether what it made beside its result is still what it was, as its committed header says: a problem in
  /// words, or nothing. Asked before units that need it are computed; with a problem, it is computed again.
  /// Any rank.
  std::function<std::string(const std::map<std::string, std::string>& header)> verify = {};
  Load load = {};  ///< for `taugrid plan`; the scheduler does not read it
  /// How many ranks it wants; 0: as many as a group has. It gets whole groups, at most all there are, and its
  /// result does not depend on how many it gets.
  int ranks = 0;
};

/// "finetune/standard" of "finetune/standard/fashion": units of one kind take about as long, and fill one
/// group of results.h5.
inline std::string kind_of(const std::string& key) { return key.substr(0, key.find('/', key.find('/') + 1)); }

/// "fashion" of "finetune/standard/fashion": units whose keys end alike read the same data, a task's, a
/// pair's, or where the key names neither, a regime's vectors.
inline std::string subject_of(const std::string& key) { return key.substr(key.rfind('/') + 1); }

}  // namespace taugrid::schedule
