// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Schedules worked out by hand.
#include "suite/plan/replay.hpp"

#include <gtest/gtest.h>

namespace taugrid::plan {
namespace {

using schedule::WorkUnit;

WorkUnit unit(std::string key, double cost, std::vector<std::string> needs = {}) {
  return {std::move(key), cost, std::move(needs), {}};
}

/// Many hosts of one rank each: nobody is in another's way.
Launch apart(int ranks, int ranks_per_unit = 1) { return {ranks, ranks_per_unit, 1}; }

using Groups = std::vector<std::vector<int>>;

const std::vector<WorkUnit> independent = {unit("a", 3), unit("b", 2), unit("c", 2), unit("d", 1)};

TEST(Replay, TheDearestGoesToTheGroupThatAsksFirst) {
  // a to rank 0, b to rank 1; at 2 c to rank 1; at 3 d to rank 0.
  const auto replayed = replay(independent, {3, 2, 2, 1}, apart(2), {});
  EXPECT_EQ(replayed.groups, (Groups{{0}, {1}, {1}, {0}}));
  EXPECT_EQ(replayed.start, (std::vector<double>{0, 0, 2, 3}));
  EXPECT_EQ(replayed.end, (std::vector<double>{3, 2, 4, 4}));
  EXPECT_EQ(replayed.seconds, 4);
  EXPECT_EQ(replay(independent, {3, 2, 2, 1}, apart(1), {}).seconds, 8);
  EXPECT_EQ(replay(independent, {3, 2, 2, 1}, apart(64), {}).seconds, 3);
}

TEST(Replay, CostDecidesTheOrderAndSecondsTheClock) {
  // The cheapest unit takes longest, and comes last: 2 + 9 on one of the ranks.
  const auto replayed = replay(independent, {3, 2, 2, 9}, apart(2), {});
  EXPECT_EQ(replayed.start[3], 3);
  EXPECT_EQ(replayed.seconds, 12);
}

TEST(Replay, UnitsWaitForTheirNeeds) {
  // Rank 1 has nothing to do until 5, when a and b are done; then it comes before rank 0, which asks only
  // then.
  const std::vector<WorkUnit> units = {unit("a", 5), unit("b", 4), unit("c", 9, {"a", "b"}),
                                       unit("d", 8, {"a"})};
  const auto replayed = replay(units, {5, 4, 2, 3}, apart(2), {});
  EXPECT_EQ(replayed.start, (std::vector<double>{0, 0, 5, 5}));
  EXPECT_EQ(replayed.groups, (Groups{{0}, {1}, {1}, {0}}));
  EXPECT_EQ(replayed.seconds, 8);
  EXPECT_EQ(longest_chain(units, {5, 4, 2, 3}), 8);
}

TEST(Replay, GroupsThatAskAtOnceAreServedInOrder) {
  const std::vector<WorkUnit> units = {unit("a", 2), unit("b", 2), unit("c", 1), unit("d", 1)};
  EXPECT_EQ(replay(units, {2, 2, 1, 1}, apart(2), {}).groups, (Groups{{0}, {1}, {0}, {1}}));
}

TEST(Replay, AUnitThatWantsSeveralGroupsWaitsForThem) {
  // c wants two ranks: it is the dearest from 2 on, and waits for rank 0; d waits behind it.
  std::vector<WorkUnit> units = {unit("a", 3), unit("b", 2), unit("c", 8, {"b"}), unit("d", 1)};
  units[2].ranks = 2;
  const auto replayed = replay(units, {3, 2, 8, 1}, apart(2), {});
  EXPECT_EQ(replayed.start, (std::vector<double>{0, 0, 3, 7}));
  EXPECT_EQ(replayed.groups, (Groups{{0}, {1}, {0, 1}, {0}}));
  EXPECT_EQ(replayed.seconds, 8);
  EXPECT_EQ(replay(units, {3, 2, 8, 1}, apart(1), {}).seconds, 14);  // it takes what there is
}

TEST(Replay, GroupsOfSeveralRanksAndIdleOnes) {
  // Five ranks are two groups of two, and one that idles.
  EXPECT_EQ(replay(independent, {3, 2, 2, 1}, apart(5, 2), {}).seconds, 4);
  EXPECT_EQ(apart(5, 2).groups(), 2);
}

TEST(Replay, CrowdedRanksAreSlowerWhileTheyAreCrowded) {
  // Both at 1/1.5 of their speed until 1.5; b has one second left, and is alone.
  const std::vector<WorkUnit> units = {unit("a", 1), unit("b", 2)};
  const Host host{2, 1, 1.5};
  const auto replayed = replay(units, {1, 2}, {2, 1, 2}, host);
  EXPECT_DOUBLE_EQ(replayed.end[0], 1.5);
  EXPECT_DOUBLE_EQ(replayed.end[1], 2.5);
  // On two hosts nobody is crowded.
  EXPECT_DOUBLE_EQ(replay(units, {1, 2}, {2, 1, 1}, host).seconds, 2);
}

TEST(Replay, MoreThreadsThanCoresSlowAllDownInProportion) {
  const std::vector<WorkUnit> units = {unit("a", 1), unit("b", 1), unit("c", 1), unit("d", 1)};
  EXPECT_DOUBLE_EQ(replay(units, {1, 1, 1, 1}, {4, 1, 4}, {2, 1, 1}).seconds, 2);
  EXPECT_DOUBLE_EQ(replay(units, {1, 1, 1, 1}, {2, 1, 2}, {2, 1, 1}).seconds, 2);
  // Three of four ranks until 1.5 at 2/3 of the speed.
  EXPECT_DOUBLE_EQ(replay({units[0], units[1], units[2]}, {1, 1, 1}, {4, 1, 4}, {2, 1, 1}).seconds, 1.5);
}

TEST(Replay, AUnitIsAsSlowAsItsFullestHost) {
  // Ranks 0-2 on one host of two cores, 3 on another: groups (0,1) and (2,3). The first host has 3 busy
  // ranks.
  const std::vector<WorkUnit> units = {unit("a", 1), unit("b", 1)};
  EXPECT_DOUBLE_EQ(replay(units, {1, 1}, {4, 2, 3}, {2, 1, 1}).seconds, 1.5);
}

TEST(Host, SlowdownGrowsWithBusyRanks) {
  const Host host{8, 2, 1.6};  // room for four ranks
  EXPECT_EQ(host.slowdown(0), 1);
  EXPECT_EQ(host.slowdown(1), 1);
  EXPECT_DOUBLE_EQ(host.slowdown(2), 1.2);
  EXPECT_DOUBLE_EQ(host.slowdown(4), 1.6);
  EXPECT_DOUBLE_EQ(host.slowdown(8), 3.2);
  // A rank with more threads than there are cores was measured so.
  const Host small{2, 4, 1};
  EXPECT_EQ(small.slowdown(1), 1);
  EXPECT_EQ(small.slowdown(3), 3);
}

TEST(UsefulRanks, AreThoseThatEndSooner) {
  std::vector<WorkUnit> units = {unit("chain", 10)};
  for (int i = 0; i < 30; ++i) units.push_back(unit("short/" + std::to_string(i), 1));
  std::vector<double> seconds(units.size(), 1);
  seconds[0] = 10;
  // 40 seconds of work, none sooner than 10: four ranks.
  EXPECT_EQ(useful_ranks(units, seconds, apart(1), {}, 1.05), 4);
  EXPECT_EQ(useful_ranks(units, seconds, apart(2, 2), {}, 1.05), 8);
  EXPECT_EQ(useful_ranks({unit("a", 1)}, {1}, apart(1), {}, 1.05), 1);
}

}  // namespace
}  // namespace taugrid::plan
