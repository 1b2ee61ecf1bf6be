// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/machine/energy.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/suite/store/scratch.hpp"

using taugrid::machine::EnergyMeter;
using taugrid::machine::EnergyPlaces;
using taugrid::testing::expect_contains;
using taugrid::testing::Scratch;
namespace fs = std::filesystem;

namespace {

/// A stand-in for /sys.
class Energy : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const auto file = sys / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file.string() + ".new") << text << "\n";
    fs::rename(file.string() + ".new", file);
  }
  void zone(const std::string& number, const std::string& name, const std::string& energy) {
    const auto folder = "class/powercap/" + number + "/";
    write(folder + "name", name);
    write(folder + "max_energy_range_uj", "1000000000");
    write(folder + "energy_uj", energy);
  }
  /// Two packages, the memory of one of which counts of its own, as Linux has them.
  void two_packages() {
    write("class/powercap/intel-rapl/enabled", "1");
    zone("intel-rapl:0", "package-0", "5000000");
    zone("intel-rapl:0:0", "core", "3000000");
    zone("intel-rapl:0:1", "dram", "999000000");
    zone("intel-rapl:1", "package-1", "7000000");
    zone("intel-rapl:2", "psys", "7000000");
    zone("intel-rapl-mmio:0", "package-0", "5000000");
  }
  void meter(const std::string& number, const std::string& socket, const std::string& microwatts) {
    write("class/hwmon/" + number + "/device/power1_oem_info", socket);
    write("class/hwmon/" + number + "/device/power1_average", microwatts);
    write("class/hwmon/" + number + "/device/power1_average_interval", "50");
  }
  EnergyPlaces places(int ranks = 1) {
    EnergyPlaces all;
    all.sys = sys / "";
    all.ranks_on_host = ranks;
    return all;
  }
  EnergyPlaces with_gpu(int ranks = 1) {
    auto all = places();
    all.nvml = NVML_STUB;
    all.gpu = "000102030405060708090a0b0c0d0e0f";
    all.ranks_on_gpu = ranks;
    setenv("STUB_UUID", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", 1);
    setenv("STUB_MILLIJOULES", "1000000", 1);
    return all;
  }
  void TearDown() override {
    for (const auto* name : {"STUB_UUID", "STUB_MILLIJOULES", "STUB_NVML_BROKEN"}) unsetenv(name);
  }

  Scratch sys{"energy"};
};

TEST_F(Energy, PackagesAndMemoryCountAndWrapAround) {
  two_packages();
  const EnergyMeter meter(places());
  EXPECT_EQ(meter.source(), "rapl");
  EXPECT_EQ(meter.problem(), "");
  EXPECT_EQ(meter.joules(), 0);
  zone("intel-rapl:0", "package-0", "15000000");       // 10 J
  zone("intel-rapl:0:0", "core", "900000000");         // in its package
  zone("intel-rapl:1", "package-1", "8500000");        // 1.5 J
  zone("intel-rapl:0:1", "dram", "1000000");           // 2 J: 1 to the end, 1 from the begin
  zone("intel-rapl:2", "psys", "900000000");           // all again
  zone("intel-rapl-mmio:0", "package-0", "15000000");  // package 0 again
  EXPECT_NEAR(meter.joules(), 13.5, 1e-9);
  zone("intel-rapl:0:1", "dram", "500000");  // nearly once around: 999.5 J
  EXPECT_NEAR(meter.joules(), 13.5 + 999.5, 1e-6);
}

TEST_F(Energy, SharesOfRanksAddUp) {
  two_packages();
  const EnergyMeter first(places(2)), second(places(2));
  zone("intel-rapl:1", "package-1", "19000000");
  EXPECT_NEAR(first.joules(), 6, 1e-9);
  EXPECT_NEAR(first.joules() + second.joules(), 12, 1e-9);
}

TEST_F(Energy, WhatCannotBeReadIsSaidAndNotGuessed) {
  two_packages();
  fs::remove(sys / "class/powercap/intel-rapl:1/energy_uj");
  fs::create_directory(sys / "class/powercap/intel-rapl:1/energy_uj");
  const EnergyMeter meter(places());
  EXPECT_TRUE(std::isnan(meter.joules()));
  EXPECT_EQ(meter.source(), "");
  expect_contains(meter.problem(), "intel-rapl:1/energy_uj cannot be read: Is a directory");
}

TEST_F(Energy, ForRootAloneIsForRootAlone) {  // as Linux has it since 2020
  two_packages();
  chmod((sys / "class/powercap/intel-rapl:0/energy_uj").c_str(), 0);
  if (geteuid() == 0 && seteuid(65534) != 0) GTEST_SKIP() << "no other user here";
  {
    const EnergyMeter meter(places());
    EXPECT_TRUE(std::isnan(meter.joules()));
    expect_contains(meter.problem(), "intel-rapl:0/energy_uj cannot be read: Permission denied");
  }
  ASSERT_EQ(seteuid(getuid()), 0);
}

TEST_F(Energy, ACounterThatIsLostOnTheWayCountsNoMore) {
  two_packages();
  const EnergyMeter meter(places());
  write("class/powercap/intel-rapl:1/energy_uj", "no number");
  EXPECT_TRUE(std::isnan(meter.joules()));
  write("class/powercap/intel-rapl:1/energy_uj", "9000000");
  EXPECT_TRUE(std::isnan(meter.joules()));
}

TEST_F(Energy, NothingWhereNothingCounts) {
  const EnergyMeter meter(places());
  EXPECT_TRUE(std::isnan(meter.joules()));
  EXPECT_EQ(meter.source(), "");
  expect_contains(meter.problem(), "has neither pm_counters nor RAPL nor Grace's power meters");
}

TEST_F(Energy, ACrayCountsItsNodeAndTheGpusInIt) {
  two_packages();
  write("cray/pm_counters/energy", "4000 J 1700000000000000 us");
  const EnergyMeter meter(with_gpu());
  EXPECT_EQ(meter.source(), "pm_counters");
  write("cray/pm_counters/energy", "4321 J 1700000001000000 us");
  setenv("STUB_MILLIJOULES", "1500000", 1);
  zone("intel-rapl:1", "package-1", "19000000");
  EXPECT_EQ(meter.joules(), 321);
  write("cray/pm_counters/energy", "3 J 1700000002000000 us");  // the node was started again
  EXPECT_TRUE(std::isnan(meter.joules()));
}

TEST_F(Energy, GracesPowerIsSummedOverTime) {
  meter("hwmon0", "Module Power Socket 0", "900000000");  // with the GPU, which NVML counts
  meter("hwmon1", "Grace Power Socket 0", "100000000");
  meter("hwmon2", "CPU Power Socket 0", "80000000");  // in Grace's
  meter("hwmon3", "Grace Power Socket 1", "50000000");
  std::atomic<double> now = 10;
  std::atomic<int> looks = 0;
  const auto all_are_read = [&looks] {  // by the meter's own thread, from here on
    for (const int before = looks; looks < before + 4;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  auto two_ranks = places(2);
  two_ranks.clock = [&] {
    ++looks;
    return now.load();
  };
  const EnergyMeter grace(two_ranks);
  EXPECT_EQ(grace.source(), "hwmon");
  EXPECT_EQ(grace.interval(), 0.05);
  now = 12;
  EXPECT_NEAR(grace.joules(), 150 * 2 / 2, 1e-9);
  now = 13;
  all_are_read();
  meter("hwmon1", "Grace Power Socket 0", "0");
  meter("hwmon3", "Grace Power Socket 1", "20000000");
  all_are_read();
  now = 17;
  EXPECT_NEAR(grace.joules(), (150 * 3 + 20 * 4) / 2, 1e-9);
}

TEST_F(Energy, AMeterOfMinutesIsNotUsed) {
  meter("hwmon1", "Grace Power Socket 0", "100000000");
  write("class/hwmon/hwmon1/device/power1_average_interval", "4294967295");
  const EnergyMeter grace(places());
  EXPECT_EQ(grace.source(), "");
  expect_contains(grace.problem(), "power1_average_interval says 4294967295 ms; expected at most 1000");
}

TEST_F(Energy, ThePowerOfCoresWhereNoSocketsIsThere) {
  meter("hwmon0", "CPU Power Socket 0", "80000000");
  EXPECT_EQ(EnergyMeter(places()).source(), "hwmon");
  fs::remove_all(sys / "class");
  meter("hwmon0", "Module Power Socket 0", "80000000");
  EXPECT_EQ(EnergyMeter(places()).source(), "");
}

TEST_F(Energy, AGpuCountsBesideItsHost) {
  two_packages();
  const EnergyMeter both(with_gpu(2));
  EXPECT_EQ(both.source(), "rapl+nvml");
  zone("intel-rapl:1", "package-1", "19000000");
  setenv("STUB_MILLIJOULES", "1500000", 1);
  EXPECT_NEAR(both.joules(), 12 + 500 / 2, 1e-9);
}

TEST_F(Energy, AGpuCountsAloneWhereItsHostDoesNot) {
  const EnergyMeter gpu(with_gpu());
  EXPECT_EQ(gpu.source(), "nvml");
  expect_contains(gpu.problem(), "has neither");
  setenv("STUB_MILLIJOULES", "1000250", 1);
  EXPECT_NEAR(gpu.joules(), 0.25, 1e-12);
}

TEST_F(Energy, APartOfAGpuHasANameOfItsOwn) {
  const auto all = with_gpu();
  setenv("STUB_UUID", "MIG-00010203-0405-0607-0809-0a0b0c0d0e0f", 1);
  EXPECT_EQ(EnergyMeter(all).source(), "nvml");
}

TEST_F(Energy, AHostThatLeavesItsGpuOutIsNotCounted) {
  two_packages();
  auto all = with_gpu();
  unsetenv("STUB_MILLIJOULES");
  expect_contains(EnergyMeter(all).problem(),
                  "the GPU is not counted: nvmlDeviceGetTotalEnergyConsumption gives error 3");
  setenv("STUB_NVML_BROKEN", "1", 1);
  expect_contains(EnergyMeter(all).problem(), "nvmlInit_v2 gives error 9");
  all.nvml = "libtaugrid-no-such-library.so";
  const EnergyMeter meter(all);
  expect_contains(meter.problem(), "the GPU is not counted: libtaugrid-no-such-library.so is not there");
  EXPECT_EQ(meter.source(), "");
  EXPECT_TRUE(std::isnan(meter.joules()));
}

}  // namespace
