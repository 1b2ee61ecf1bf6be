// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Bytes between a host's memory and its caches, as its memory controllers count them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace taugrid::machine {

/// The controllers' counters of Linux' perf: Intel's uncore_imc (with its reads and writes among the kernel's
/// named events) and AMD's amd_umc (Zen 4 and later), one or more a socket. They count all of the host, so
/// what others do counts, too. Reading them takes root, CAP_PERFMON or a kernel.perf_event_paranoid of 0 or
/// less.
class MemoryTraffic {
 public:
  explicit MemoryTraffic(const std::filesystem::path& sys = "/sys");
  ~MemoryTraffic();
  MemoryTraffic(const MemoryTraffic&) = delete;
  MemoryTraffic& operator=(const MemoryTraffic&) = delete;

  /// Bytes read and written since this object was made; NaN where nothing counts them.
  double bytes() const;
  /// "uncore_imc" or "amd_umc", or "none: " and why.
  const std::string& line() const { return line_; }

 private:
  struct Counter {
    int descriptor;
    double bytes;  ///< of one count
  };
  std::vector<Counter> counters_;
  std::string line_;
};

}  // namespace taugrid::machine
