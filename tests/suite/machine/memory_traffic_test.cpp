// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Controllers as Linux shows them, whose "events" are the kernel's own clock: it counts a processor's
// nanoseconds.
#include "suite/machine/memory_traffic.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "tests/suite/store/scratch.hpp"

using taugrid::machine::MemoryTraffic;
using taugrid::testing::expect_contains;
using taugrid::testing::Scratch;
namespace fs = std::filesystem;

namespace {

class Traffic : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const auto file = devices / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void controller(const std::string& name) {
    write(name + "/type", "1");  // the kernel's own events, of which cpu-clock is 0
    write(name + "/cpumask", "0");
    write(name + "/format/event", "config:0-7");
    write(name + "/format/umask", "config:8-15");
    write(name + "/format/rdwrmask", "config:8-9");
  }
  void event(const std::string& controller, const std::string& name, const std::string& terms) {
    const auto file = controller + "/events/" + name;
    write(file, terms);
    write(file + ".scale", "6.103515625e-5");
    write(file + ".unit", "MiB");
  }
  static double counted(const MemoryTraffic& traffic) {
    const double before = traffic.bytes();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return traffic.bytes() - before;
  }
  std::string line() { return MemoryTraffic(sys).line(); }

  Scratch scratch{"traffic"};
  fs::path sys = scratch / "sys", devices = sys / "bus/event_source/devices";
};

TEST_F(Traffic, ReadsAndWritesOfAllControllersAddUp) {
  for (const std::string name : {"uncore_imc_0", "uncore_imc_1"}) {
    controller(name);
    event(name, "cas_count_read", "event=0x00,umask=0x00");
    event(name, "cas_count_write", "event=0x00");
    event(name, "clockticks", "event=0x07");  // no traffic
  }
  controller("uncore_imc_free_running_0");  // the same traffic again
  event("uncore_imc_free_running_0", "data_read", "event=0x00");
  const MemoryTraffic traffic(sys);
  if (traffic.line().starts_with("none: ")) {  // where the kernel lets nobody count
    expect_contains(traffic.line(), "perf_event");
    EXPECT_TRUE(std::isnan(traffic.bytes()));
    return;
  }
  expect_contains(traffic.line(), "uncore_imc; what others do");
  const auto start = std::chrono::steady_clock::now();
  const double bytes = counted(traffic);
  const double most = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double clocks = bytes / 64 * 1e-9;  // seconds of four counters, 64 bytes a count
  EXPECT_GE(clocks, 4 * 0.04);
  EXPECT_LE(clocks, 4 * most * 1.01);
}

TEST_F(Traffic, AControllerOfAmdHasNoNamedEvents) {
  controller("amd_umc_0");
  write("amd_umc_0/type", "4294967295");  // no such kind: the kernel refuses it
  expect_contains(line(), "none: perf_event_open");
  write("amd_umc_0/format/rdwrmask", "config:8");
  expect_contains(line(), "format/rdwrmask leaves rdwrmask=2 no room");
}

TEST_F(Traffic, WhatCannotBeReadIsSaid) {
  EXPECT_EQ(line(), "none: this host shows no counters of memory controllers (uncore_imc, amd_umc)");
  controller("uncore_imc");
  EXPECT_EQ(line(), "none: this host shows no counters of memory controllers (uncore_imc, amd_umc)");
  event("uncore_imc", "data_reads", "event=0x100");
  expect_contains(line(), "format/event leaves event=0x100 no room");
  event("uncore_imc", "data_reads", "event=fast");
  expect_contains(line(), "format/event holds no number");
  event("uncore_imc", "data_reads", "speed=1");
  expect_contains(line(), "format/speed cannot be read");
  event("uncore_imc", "data_reads", "event=0x00");
  write("uncore_imc/format/event", "config1:0-7");
  expect_contains(line(), "format/event holds no bits of config");
  write("uncore_imc/format/event", "config:0-7");
  for (const std::string mask : {"", "zero", "3-1", "0-", "0-9999999"}) {
    write("uncore_imc/cpumask", mask);
    expect_contains(line(), "cpumask");
  }
  write("uncore_imc/cpumask", "0");
  write("uncore_imc/events/data_reads.unit", "furlongs");
  expect_contains(line(), "data_reads.unit says furlongs; expected MiB");
  write("uncore_imc/events/data_reads.unit", "MiB");
  write("uncore_imc/events/data_reads.scale", "much");
  expect_contains(line(), "data_reads.scale holds no number");
  write("uncore_imc/type", "none");
  expect_contains(line(), "none: ");
}

}  // namespace
