// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/runtime.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "suite/comm/failure.hpp"
#include "suite/error.hpp"

using namespace taugrid;
using namespace std::chrono_literals;

namespace {

int argc = 0;
char** argv = nullptr;

bool within(std::chrono::duration<double> limit, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(5ms);
  }
  return condition();
}

TEST(Runtime, TellsWhoRunsWhere) {
  comm::Runtime runtime(argc, argv, {.threads = 1});
  ASSERT_EQ(static_cast<int>(runtime.ranks().size()), runtime.world().size());
  EXPECT_EQ(runtime.mine().rank, runtime.world().rank());
  EXPECT_EQ(runtime.mine().pid, getpid());
  EXPECT_GT(runtime.mine().cores, 0);
  EXPECT_EQ(at::get_num_threads(), 1);
  EXPECT_NE(runtime.banner().find(runtime.mine().host), std::string::npos);
}

TEST(Runtime, WarnsOfMoreThreadsThanCores) {
  comm::Runtime runtime(argc, argv, {.threads = 1});
  runtime.set_threads(1000);
  ASSERT_EQ(runtime.warnings().size(), 1U);
  EXPECT_NE(runtime.warnings()[0].find("threads in all share"), std::string::npos);
  runtime.set_threads(1);
}

TEST(Runtime, RefusesALauncherThatDoesNotConnect) {
  comm::Runtime runtime(argc, argv);
  setenv("SLURM_NTASKS", "7", 1);
  EXPECT_NO_THROW(runtime.check_launcher());  // under mpirun, which starts as many as it is told
  unsetenv("SLURM_NTASKS");
}

// On hosts of one, two and all ranks: the request crosses them.
TEST(Stop, ASignalOnTheLastRankReachesAll) {
  for (const int ranks_per_host : {0, 1, 2}) {
    comm::Runtime runtime(argc, argv, {.threads = 1, .ranks_per_host = ranks_per_host});
    const auto& world = runtime.world();
    EXPECT_FALSE(runtime.stop().requested(world));
    if (world.rank() == world.size() - 1) {
      raise(SIGUSR1);
    }
    EXPECT_TRUE(within(2s, [&] { return runtime.stop().requested(); }));
    EXPECT_EQ(runtime.stop().reason(), "SIGUSR1");
    EXPECT_TRUE(runtime.stop().requested(world));
    EXPECT_THROW(runtime.stop().throw_if_requested(world, "test"), Interrupted);
    world.barrier("test");
  }
}

TEST(Stop, TimeLimit) {
  comm::Runtime runtime(argc, argv);
  runtime.set_time_limit(0.2s);
  EXPECT_TRUE(within(2s, [&] { return runtime.stop().requested(); }));
  EXPECT_EQ(runtime.stop().reason(), "the time limit");
}

TEST(Stop, OneRankKnowsAllAnswerAlike) {
  const comm::Communicator world(MPI_COMM_WORLD);
  const comm::StopRequest stop;
  EXPECT_FALSE(stop.requested(world));
  if (world.rank() == 0) {
    stop.request();
    stop.request(SIGTERM);
    EXPECT_EQ(stop.reason(), "request");  // the first stays
  }
  EXPECT_TRUE(stop.requested(world));
}

TEST(Guarded, AgreesOnTheCode) {
  comm::Runtime runtime(argc, argv);
  EXPECT_EQ(comm::run_guarded(runtime, [] {}), 0);
  EXPECT_EQ(comm::run_guarded(runtime,
                              [&] {
                                if (runtime.world().rank() == runtime.world().size() - 1)
                                  throw Interrupted("test, expected");
                              }),
            75);
  EXPECT_EQ(comm::run_guarded(runtime, [] { throw InputError("test, expected"); }), 2);
}

TEST(Doing, NestsAndRemembersWhereItFailed) {
  comm::Runtime runtime(argc, argv);
  const comm::Doing outer("unit a/b");
  EXPECT_EQ(comm::current_operation(), "unit a/b");
  try {
    const comm::Doing inner("sum of gradients");
    EXPECT_EQ(comm::current_operation(), "unit a/b: sum of gradients");
    throw 1;
  } catch (int) {
    EXPECT_EQ(comm::current_operation(), "unit a/b: sum of gradients");
  }
  {
    const comm::Doing next("next");
    EXPECT_EQ(comm::current_operation(), "unit a/b: next");
    const comm::Doing endless(std::string(2000, 'x'));
    EXPECT_LT(comm::current_operation().size(), 600U);
  }
  EXPECT_EQ(comm::current_operation(), "unit a/b");
}

}  // namespace
