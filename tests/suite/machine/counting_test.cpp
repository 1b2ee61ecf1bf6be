// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "suite/machine/energy.hpp"
#include "tests/suite/store/scratch.hpp"

namespace comm = taugrid::comm;
namespace machine = taugrid::machine;
using taugrid::machine::EnergyMeter;
using taugrid::testing::expect_contains;
using taugrid::testing::Scratch;
using taugrid::testing::write_bytes;
namespace fs = std::filesystem;

namespace {

int argc = 0;
char** argv = nullptr;

class Counting : public ::testing::Test {
 protected:
  /// A stand-in for this rank's /sys, with a counter or without.
  machine::EnergyPlaces places(bool counts) const {
    if (counts) {
      fs::create_directories(sys / "cray/pm_counters");
      write_bytes(sys / "cray/pm_counters/energy", "4000 J 1700000000000000 us\n");
    }
    machine::EnergyPlaces stand_in;
    stand_in.sys = sys / "";
    return stand_in;
  }

  comm::Runtime runtime{argc, argv};
  const comm::Communicator& world = runtime.world();
  Scratch sys{"counting"};
};

TEST_F(Counting, AllRanksHaveACounter) {
  const EnergyMeter meter(places(true));
  const auto counting = machine::agree_on_counters(runtime, meter);
  EXPECT_EQ(counting.source, "pm_counters");
  EXPECT_EQ(counting.line, "pm_counters; what is idle, and what others do, counts too");
}

TEST_F(Counting, TheFirstHostWithoutACounterIsNamed) {
  const int first = world.size() / 2;  // the ranks from this one on have none
  const EnergyMeter meter(places(world.rank() < first));
  const auto counting = machine::agree_on_counters(runtime, meter);
  EXPECT_EQ(counting.source, "");
  auto reason = meter.problem();  // it has the path of that rank's own stand-in
  world.broadcast(reason, first, "test");
  expect_contains(reason, "has neither pm_counters nor RAPL");
  EXPECT_EQ(counting.line, "none: " + runtime.ranks()[static_cast<std::size_t>(first)].host + ": " + reason);
}

}  // namespace
