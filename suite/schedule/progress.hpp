// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The progress line: how much is done, how fast, what is left, what is running.
#pragma once

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace taugrid::schedule {

/// Counts in predicted cost. One line that is rewritten on a terminal; elsewhere whole lines, the first at
/// once, then at most one in 10 s, so that a batch job's log stays short.
class Progress {
 public:
  Progress(std::FILE* out, int units, double cost, int units_before, double cost_before);
  ~Progress();

  void started(int unit, const std::string& key, double cost);
  void advanced(int unit, double fraction, const std::string& detail);
  void finished(int unit);
  /// Interrupted: no longer running, not done.
  void stopped(int unit);
  /// Prints if it is time; call it often.
  void refresh(bool now = false);
  /// The line's text after `elapsed` seconds.
  std::string line(double elapsed) const;

 private:
  struct Running {
    std::string key;
    double cost;
    double fraction;
    std::string detail;
  };
  std::FILE* out_;
  bool terminal_;
  int units_;
  int units_before_;
  int units_done_;
  double cost_;
  double cost_before_;
  double cost_done_;
  std::map<int, Running> running_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point printed_;
  std::string printed_text_;  // empty: nothing yet
};

}  // namespace taugrid::schedule
