// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which GPU a rank takes, with a stand-in for the CUDA driver.
#include "suite/comm/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "suite/error.hpp"
#include "tests/suite/comm/launch.hpp"

using taugrid::test::Job;

namespace {

std::vector<std::string> lines_of(std::vector<std::string> command) {
  const auto ended = Job(std::move(command)).end();
  auto lines = ended.lines("");
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<std::string> on_gpus(int ranks, const std::string& gpus, const std::vector<std::string>& more) {
  std::vector<std::string> command = {"env", "LD_LIBRARY_PATH=" STUB_FOLDER, "STUB_GPUS=" + gpus};
  command.insert(command.end(), more.begin(), more.end());
  return taugrid::test::launched(ranks, command);
}

// With all GPUs shown to each rank, each takes its own; with more ranks than GPUs, they share.
TEST(Device, IsTheLaunchersLocalRankBeforeMpiStarts) {
  EXPECT_EQ(lines_of(on_gpus(4, "4", {PROGRAM, "choose"})),
            (std::vector<std::string>{"current device 0, MPI waits", "current device 1, MPI waits",
                                      "current device 2, MPI waits", "current device 3, MPI waits"}));
  EXPECT_EQ(lines_of(on_gpus(4, "2", {PROGRAM, "choose"})),
            (std::vector<std::string>{"current device 0, MPI waits", "current device 0, MPI waits",
                                      "current device 1, MPI waits", "current device 1, MPI waits"}));
}

TEST(Device, IsTheOnlyOneWhereTheLauncherShowsEachItsOwn) {
  EXPECT_EQ(lines_of(on_gpus(2, "1", {PROGRAM, "choose"})),
            (std::vector<std::string>{"current device 0, MPI waits", "current device 0, MPI waits"}));
}

TEST(Device, FollowsOtherLaunchersToo) {
  for (const char* name : {"SLURM_LOCALID", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"}) {
    EXPECT_EQ(lines_of({"env", "LD_LIBRARY_PATH=" STUB_FOLDER, "STUB_GPUS=8", std::string(name) + "=5",
                        PROGRAM, "choose"}),
              std::vector<std::string>{"current device 5, MPI waits"});
  }
}

TEST(Device, MpiIsTriedWithItsMemory) {
  // Memory that is the host's after all, any MPI can move; memory that is not, this one cannot, and dies of
  // it.
  EXPECT_EQ(Job(on_gpus(1, "1", {PROGRAM, "try"})).end().code, 0);
  EXPECT_EQ(Job(on_gpus(1, "1", {"STUB_FAR=1", PROGRAM, "try"})).end().code, 1);
  // One that cannot be used, or none.
  EXPECT_EQ(Job(on_gpus(1, "1", {"STUB_BUSY=1", PROGRAM, "try"})).end().code, 1);
  EXPECT_EQ(Job(on_gpus(1, "0", {PROGRAM, "try"})).end().code, 1);
}

// Such as of another job, or behind a driver older than LibTorch's CUDA, which this stand-in is for it.
TEST(Device, OneThatCannotBeUsedLeavesTheCpuAndAReason) {
  const auto said = [](const char* fault) {
    return Job(on_gpus(1, "1", {fault, PROGRAM, "auto"})).end().lines("cpu: ");
  };
  EXPECT_EQ(said("STUB_BUSY=1"),
            std::vector<std::string>{"cpu: 1 GPUs are there, and none is used: GPU 0 cannot be used: "
                                     "cuDevicePrimaryCtxRetain gives error 46"});
  EXPECT_EQ(said("STUB_BROKEN=1"),
            std::vector<std::string>{"cpu: no GPU is used: the CUDA driver does not start "
                                     "(cuInit gives error 802)"});
  const auto old = said("STUB_FAR=0");
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].rfind("cpu: 1 GPUs are there, and none is used: no CUDA: ", 0), 0U) << old[0];
}

TEST(Device, BringsTheNcclOfLibTorch) {
  const auto ended = Job({PROGRAM, "nccl"}).end();
  EXPECT_EQ(ended.code, 0);
  if (ended.err.find("without CUDA") != std::string::npos) GTEST_SKIP() << ended.err;
  EXPECT_EQ(ended.err.rfind("before: \nNCCL 2.", 0), 0U) << ended.err;
}

TEST(Device, WithoutADriverIsTheCpu) {
  if (taugrid::comm::visible_gpus() > 0) GTEST_SKIP() << "a GPU is there";
  const auto chosen = taugrid::comm::choose_device("auto");
  EXPECT_TRUE(chosen.place.is_cpu());
  EXPECT_EQ(chosen.name, "cpu");
  EXPECT_EQ(chosen.warning, "");
  EXPECT_THROW(taugrid::comm::choose_device("cuda"), taugrid::InputError);
  EXPECT_THROW(taugrid::comm::choose_device("abacus"), taugrid::InputError);
}

}  // namespace
