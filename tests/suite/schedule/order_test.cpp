// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "suite/error.hpp"
#include "suite/schedule/detail/deal.hpp"
#include "suite/schedule/scheduler.hpp"
#include "tests/suite/schedule/shared_folder.hpp"

using namespace taugrid;
using schedule::check_units;
using schedule::WorkUnit;
using schedule::detail::Deal;

namespace {

WorkUnit unit(std::string key, double cost = 1, std::vector<std::string> needs = {}) {
  return {std::move(key), cost, std::move(needs), {}};
}

std::string problem(const std::vector<WorkUnit>& units) {
  return test::message_of<InputError>([&] { check_units(units); });
}

TEST(CheckUnits, TakesADiamond) {
  EXPECT_EQ(problem({unit("d", 1, {"b", "c"}), unit("b", 1, {"a"}), unit("c", 1, {"a"}), unit("a")}), "");
  EXPECT_EQ(problem({}), "");
}

TEST(CheckUnits, NamesTheCycle) {
  EXPECT_EQ(problem({unit("start", 1, {"a"}), unit("a", 1, {"b"}), unit("b", 1, {"c"}), unit("c", 1, {"a"})}),
            "units wait for each other: a needs b needs c needs a");
  EXPECT_EQ(problem({unit("a", 1, {"a"})}), "units wait for each other: a needs a");
}

TEST(CheckUnits, NamesWhatIsMissingDoubleOrUnfit) {
  EXPECT_EQ(problem({unit("a", 1, {"b"})}), "unit a needs b, which no unit computes");
  EXPECT_NO_THROW(check_units({unit("a", 1, {"b"})}, [](const std::string& key) { return key == "b"; }));
  EXPECT_EQ(problem({unit("a"), unit("a")}), "unit a is there twice");
  for (const char* key : {"", "a b", "../a", "a__b", "/a", "a//b", "a/", "ä", "a_/b"}) {
    EXPECT_NE(problem({unit(key)}), "") << key;
  }
}

TEST(CheckUnits, LongChains) {
  std::vector<WorkUnit> units{unit("0")};
  for (int i = 1; i < 100000; ++i) {
    units.push_back(unit(std::to_string(i), 1, {std::to_string(i - 1)}));
  }
  EXPECT_EQ(problem({units.rbegin(), units.rend()}), "");
}

TEST(Deal, DearestFirstThenInOrder) {
  const std::vector<WorkUnit> units{unit("a", 1), unit("b", 3), unit("c", 2), unit("d", 3)};
  Deal deal(units, {false, false, false, false});
  EXPECT_EQ(deal.next(), 1);
  EXPECT_EQ(deal.next(), 3);
  EXPECT_EQ(deal.next(), 2);
  EXPECT_EQ(deal.next(), 0);
  EXPECT_EQ(deal.next(), std::nullopt);
  EXPECT_FALSE(deal.all_done());
}

TEST(Deal, AGroupStaysWithItsTasks) {
  const std::vector<WorkUnit> units{unit("tune/linear/a", 8),   unit("tune/linear/b", 8),
                                    unit("tune/linear/c", 8),   unit("tune/standard/a", 5),
                                    unit("tune/standard/b", 5), unit("tune/standard/c", 4)};
  Deal deal(units, std::vector<bool>(units.size(), false), 1, 2);
  EXPECT_EQ(deal.next(1, 0), 0);
  EXPECT_EQ(deal.next(1, 1), 1);
  EXPECT_EQ(deal.next(1, 1), 4);  // its own task, nearly as dear as the dearest
  EXPECT_EQ(deal.next(1, 1), 2);  // none of its own is left, and this task is nobody's
  EXPECT_EQ(deal.next(1, 1), 5);  // at last its own before the dearer one of another
  EXPECT_EQ(deal.next(1, 1), 3);  // but nobody idles
  EXPECT_EQ(deal.next(1, 0), std::nullopt);
}

TEST(Deal, WhatIsFarDearerWaitsForNoTask) {
  const std::vector<WorkUnit> units{unit("tune/a", 1), unit("measure/a", 1), unit("tune/b", 2.1),
                                    unit("c", 9)};
  Deal deal(units, {false, false, false, true}, 1, 2);
  EXPECT_EQ(deal.next(1, 0), 2);
  EXPECT_EQ(deal.next(1, 1), 0);
  EXPECT_EQ(deal.next(1, 0), 1);
  Deal other(units, {false, true, false, false}, 1, 2);
  EXPECT_EQ(other.next(1, 1), 3);
  EXPECT_EQ(other.next(1, 0), 2);
  EXPECT_EQ(other.next(1, 0), 0);
}

TEST(Deal, WhatIsDoneStaysSoWhenItsNeedIsComputedAgain) {
  const std::vector<WorkUnit> units{unit("a"), unit("b", 1, {"a"}), unit("c", 1, {"a"})};
  Deal deal(units, {false, true, false});
  EXPECT_EQ(deal.next(), 0);
  deal.finish(0);
  EXPECT_EQ(deal.next(), 2);
  EXPECT_EQ(deal.next(), std::nullopt);
  deal.finish(2);
  EXPECT_TRUE(deal.all_done());
}

TEST(Deal, WaitsForNeeds) {
  const std::vector<WorkUnit> units{unit("pair", 9, {"a", "b", "old"}), unit("a", 1), unit("b", 1),
                                    unit("old", 5)};
  Deal deal(units, {false, false, false, true});
  EXPECT_EQ(deal.left(), 3);
  EXPECT_EQ(deal.next(), 1);
  deal.finish(1);
  EXPECT_EQ(deal.next(), 2);
  EXPECT_EQ(deal.next(), std::nullopt);
  deal.finish(2);
  EXPECT_EQ(deal.next(), 0);
  deal.finish(0);
  EXPECT_TRUE(deal.all_done());
}

}  // namespace
