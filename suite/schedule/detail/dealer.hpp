// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The dealer: a thread on rank 0 that answers the groups' requests, and what the groups say to it.
#pragma once

#include <atomic>
#include <deque>
#include <string_view>
#include <thread>
#include <vector>

#include "suite/comm/runtime.hpp"
#include "suite/schedule/detail/deal.hpp"
#include "suite/schedule/progress.hpp"

namespace taugrid::schedule::detail {

/// A group leader's side. Messages travel on `comm`, which nothing else uses.
class Asker {
 public:
  Asker(const comm::Communicator& comm, int groups) : comm_(comm), groups_(groups) {}
  /// A unit, and the groups that compute it together, ascending; -1: no more.
  struct Order {
    int unit = -1;
    std::vector<int> groups;
  };
  /// Sleeps until there is a unit.
  Order ask() const;
  void done(int unit) const;
  void interrupted(int unit) const;
  void progress(int unit, double fraction, std::string_view detail) const;

 private:
  const comm::Communicator& comm_;
  int groups_;
};

/// Answers until each of `groups` leaders has been told that there is no more, or until destroyed. It sleeps
/// between looks, so that it costs the rank that also computes next to nothing.
class Dealer {
 public:
  Dealer(comm::Runtime& runtime, const comm::Communicator& comm, const std::vector<WorkUnit>& units,
         Deal& deal, Progress* progress, int groups, int width);
  /// Returns when all groups have been told.
  void join();

 private:
  void serve(const std::stop_token& token);
  bool receive();
  void answer();
  void send_order(int leader, int unit, const std::vector<int>& groups) const;

  comm::Runtime& runtime_;
  const comm::Communicator& comm_;
  const std::vector<WorkUnit>& units_;
  Deal& deal_;
  Progress* progress_;  // none: silent
  int groups_left_;
  int width_;
  std::deque<int> waiting_;  // leaders, by their ranks
  std::jthread thread_;  // last: it uses the others
};

}  // namespace taugrid::schedule::detail
