// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Joules of a host and of a GPU, from the counters that they have: docs/figures_of_merit.md says what is in
// them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "suite/comm/clock.hpp"
#include "suite/comm/runtime.hpp"

namespace taugrid::machine {

/// Where counters are looked for, and how many ranks share what they count.
struct EnergyPlaces {
  std::filesystem::path sys = "/sys";
  std::string nvml = "libnvidia-ml.so.1";  ///< loaded where a GPU computes
  std::string gpu = "";                    ///< 32 hexadecimal digits of its UUID; empty: none computes
  int ranks_on_host = 1;
  int ranks_on_gpu = 1;
  std::function<double()> clock = comm::steady_seconds;  ///< what a power is summed over; any thread asks it
};
/// The places of this rank.
EnergyPlaces energy_places(const comm::Runtime& runtime);

/// A rank's share of the joules that its host and its GPU take: what their counters went on by, over the
/// ranks that share them. So the shares of all ranks add up to what was counted, each joule once. Of the host
/// one source counts, the first of Cray's pm_counters (the whole node, its GPUs too), RAPL (packages and
/// memory) and hwmon's power meters of Grace; of the GPU NVML. A thread reads what wraps around every
/// ten seconds, and what is a power every tenth of a second.
class EnergyMeter {
 public:
  explicit EnergyMeter(const EnergyPlaces& places);
  ~EnergyMeter();
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;

  /// Since this object was made; NaN where nothing counts, or where a counter could not be read since. Any
  /// thread.
  double joules() const;
  /// "pm_counters", "rapl", "hwmon", "nvml", or two with "+"; empty where nothing counts.
  const std::string& source() const { return source_; }
  /// What is not counted, and why, in words; empty where nothing is missing.
  const std::string& problem() const { return problem_; }
  /// The longest time, in seconds, after which a counter goes on.
  double interval() const { return interval_; }

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::string source_, problem_;
  double interval_ = 0;
};

/// The sum over the ranks; NaN where one is. Collective.
double joules_of_all(const comm::Communicator& world, double mine);

/// What the ranks agree on about their counters.
struct Counting {
  std::string source;  ///< of this rank; empty on all ranks where one has no counter
  std::string line;    ///< what rank 0 says of it: "rapl; what is idle counts too", "none: node7: …"
};
/// Where a rank has no counter, the line is of the first such: its host, and why. Collective.
Counting agree_on_counters(const comm::Runtime& runtime, const EnergyMeter& meter);

}  // namespace taugrid::machine
