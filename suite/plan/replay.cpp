// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/plan/replay.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "suite/schedule/detail/deal.hpp"

namespace taugrid::plan {
namespace {

struct Running {
  int unit;
  std::vector<int> groups;
  double left;  // seconds, on a host by itself
};

/// Ranks at work, host by host.
class Hosts {
 public:
  Hosts(const Launch& launch, const Host& host)
      : launch_(launch), host_(host), busy_(static_cast<std::size_t>(launch.hosts())) {}

  void add(const std::vector<int>& groups, int sign) {
    for (const int group : groups) {
      for (int i = 0; i < launch_.ranks_per_unit; ++i) busy_[host_of(group, i)] += sign;
    }
  }
  double slowdown(const std::vector<int>& groups) const {
    int most = 0;
    for (const int group : groups) {
      for (auto h = host_of(group, 0); h <= host_of(group, launch_.ranks_per_unit - 1); ++h)
        most = std::max(most, busy_[h]);
    }
    return host_.slowdown(most);
  }

 private:
  std::size_t host_of(int group, int i) const {
    return static_cast<std::size_t>((group * launch_.ranks_per_unit + i) / launch_.ranks_per_host);
  }
  const Launch& launch_;
  const Host& host_;
  std::vector<int> busy_;
};

}  // namespace

double Host::slowdown(double busy) const {
  const double room = std::max(1.0, static_cast<double>(cores) / threads);  // ranks with cores of their own
  if (busy <= 1) return 1;
  if (busy >= room) return (room > 1 ? crowding : 1) * busy / room;
  return 1 + (crowding - 1) * (busy - 1) / (room - 1);
}

Replay replay(const std::vector<schedule::WorkUnit>& units, const std::vector<double>& seconds,
              const Launch& launch, const Host& host) {
  schedule::detail::Deal deal(units, std::vector<bool>(units.size(), false), launch.ranks_per_unit,
                              launch.groups());
  Replay result;
  result.groups.resize(units.size());
  result.start.assign(units.size(), 0);
  result.end.assign(units.size(), 0);
  Hosts hosts(launch, host);
  std::deque<int> waiting;
  for (int g = 0; g < launch.groups(); ++g) waiting.push_back(g);
  std::vector<Running> running;
  double now = 0;
  while (true) {
    while (!waiting.empty()) {
      const auto next = deal.next(static_cast<int>(waiting.size()), waiting.front());
      if (!next) break;
      const auto unit = static_cast<std::size_t>(*next);
      const auto end = waiting.begin() + deal.groups_of(*next);
      auto& groups = result.groups[unit];
      groups.assign(waiting.begin(), end);
      std::sort(groups.begin(), groups.end());
      waiting.erase(waiting.begin(), end);
      result.start[unit] = now;
      hosts.add(groups, 1);
      // What ranks share out takes as much less time.
      running.push_back({*next, groups, seconds[unit] / static_cast<double>(groups.size())});
    }
    if (running.empty()) break;
    std::vector<double> slow;
    double least = std::numeric_limits<double>::infinity();
    std::size_t first = 0;
    for (std::size_t i = 0; i < running.size(); ++i) {
      slow.push_back(hosts.slowdown(running[i].groups));
      const double until = running[i].left * slow[i];
      if (until < least || (until == least && running[i].groups < running[first].groups)) {
        least = until;
        first = i;
      }
    }
    now += least;
    for (std::size_t i = 0; i < running.size(); ++i)
      running[i].left = std::max(0.0, running[i].left - least / slow[i]);
    const auto done = running[first];
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(first));
    result.end[static_cast<std::size_t>(done.unit)] = now;
    hosts.add(done.groups, -1);
    deal.finish(done.unit);
    waiting.insert(waiting.end(), done.groups.begin(), done.groups.end());
  }
  result.seconds = now;
  return result;
}

double longest_chain(const std::vector<schedule::WorkUnit>& units, const std::vector<double>& seconds) {
  // With a group for each unit and no crowding, none waits but for its needs.
  const Launch launch{static_cast<int>(units.size()), 1, 1};
  return replay(units, seconds, launch, {}).seconds;
}

int useful_ranks(const std::vector<schedule::WorkUnit>& units, const std::vector<double>& seconds,
                 const Launch& launch, const Host& host, double share) {
  const auto time = [&](int groups) {
    auto of = launch;
    of.ranks = groups * launch.ranks_per_unit;
    return replay(units, seconds, of, host).seconds;
  };
  int low = 1, high = std::max(1, static_cast<int>(units.size()));
  const double enough = share * time(high);
  while (low < high) {
    const int middle = low + (high - low) / 2;
    time(middle) <= enough ? high = middle : low = middle + 1;
  }
  return low * launch.ranks_per_unit;
}

}  // namespace taugrid::plan
