// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The failure policy as a user's shell sees it: the exit code, one message, all gone within seconds.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

#include "tests/suite/comm/fail.hpp"

using taugrid::test::command;
using taugrid::test::Job;
using taugrid::test::one_line_with;
using taugrid::test::run;

namespace {

// Beyond the start of MPI, which the limit includes.
constexpr double seconds = 5;

TEST(Failure, NoneSaysNothing) {
  const auto ended = run(4, "well");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
}

TEST(Failure, BadInputOnAllRanksIsOneLine) {
  const auto ended = run(4, "all-bad-input");
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.err, "taugrid: error: tasks.toml:3: no such task\n");
}

TEST(Failure, BadInputOnOneRankEndsTheOthers) {
  const auto ended = run(4, "one-bad-input");
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(one_line_with(ended, {"taugrid: error: data of rank 1 are missing"})) << ended.err;
  EXPECT_LT(ended.seconds, seconds);
}

// One gives up waiting for the other as that comes: both have the same to say.
TEST(Failure, BadInputAsAnothersPatienceEndsIsOneLine) {
  std::vector<std::unique_ptr<taugrid::test::Job>> jobs;
  for (int i = 0; i < 6; ++i)
    jobs.push_back(std::make_unique<taugrid::test::Job>(
        taugrid::test::command(2, "bad-input-as-patience-ends", i % 3 == 0 ? 1 : 0)));
  for (const auto& job : jobs) {
    const auto ended = job->end();
    EXPECT_EQ(ended.code, 2);
    EXPECT_TRUE(one_line_with(ended, {"taugrid: error: data were changed"})) << ended.err;
  }
}

TEST(Failure, ARankThatThrowsIsNamed) {
  const auto ended = run(4, "one-throws");
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(one_line_with(
      ended, {"taugrid: rank 1 (", ") failed in unit finetune/standard/fashion: loss is NaN at step 3"}))
      << ended.err;
  EXPECT_LT(ended.seconds, seconds);
}

TEST(Failure, ManyRanksThatThrowPrintOneMessage) {
  for (const int ranks_per_host : {0, 1, 2}) {
    const auto ended = run(4, "all-throw", ranks_per_host);
    EXPECT_EQ(ended.code, 1);
    EXPECT_TRUE(one_line_with(ended, {"failed in unit finetune/standard/fashion: no memory"})) << ended.err;
    EXPECT_LT(ended.seconds, seconds);
  }
}

// Longer than a rank waits to hear whether it may speak.
TEST(Failure, OneMessageWhereTheLauncherStandsStill) {
  Job job(command(4, "all-throw", 2));
  ASSERT_TRUE(job.says("# now"));
  job.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  job.signal(SIGCONT);
  const auto ended = job.end();
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(one_line_with(ended, {"failed in unit finetune/standard/fashion: no memory"})) << ended.err;
}

TEST(Failure, AKilledRankIsNamedWithWhatItDid) {
  for (const int ranks : {2, 4}) {
    for (const int ranks_per_host : {0, 2}) {
      const auto ended = run(ranks, "dies", ranks_per_host);
      EXPECT_TRUE(ended.code == 1 || ended.code == 137) << ended.code;
      EXPECT_TRUE(
          one_line_with(ended, {"taugrid: rank 1 (", "died while doing: unit finetune/standard/fashion"}))
          << ended.err;
      EXPECT_LT(ended.seconds, seconds);
    }
  }
}

TEST(Failure, RankZeroKilled) {
  const auto ended = run(4, "first-dies");
  EXPECT_TRUE(one_line_with(ended, {"taugrid: rank 0 (", "died while doing"})) << ended.err;
  EXPECT_LT(ended.seconds, seconds);
}

// Rank 2 sees rank 3; those that die last may have seen others die, and spoken. Where the launcher ends the
// last one alive before that could speak (monitor.cpp says when), the launcher says who died.
TEST(Failure, WhereAllButOneDieAWordIsSaid) {
  auto loud = command(4, "all-but-one-die");
  std::erase(loud, "-q");
  const auto ended = Job(loud).end();
  EXPECT_NE(ended.code, 0);
  const bool launcher_spoke = ended.err.find("mpirun noticed that process rank ") != std::string::npos;
  EXPECT_TRUE(one_line_with(ended, {"taugrid: rank ", "died while doing"}) ||
              (ended.lines().empty() && launcher_spoke))
      << ended.err;
  EXPECT_LT(ended.seconds, seconds);
}

TEST(Failure, ARankThatExitsEarlyCountsAsDead) {
  const auto ended = run(4, "exits");
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(one_line_with(ended, {"taugrid: rank 1 (", "died while doing"})) << ended.err;
  EXPECT_LT(ended.seconds, seconds);
}

TEST(Failure, UsrSignalToTheLauncherStopsResumably) {
  Job job(command(4, "waits", 2));
  ASSERT_TRUE(job.says("waiting"));
  job.signal(SIGUSR1);
  const auto ended = job.end();
  EXPECT_EQ(ended.code, 75);
  EXPECT_TRUE(one_line_with(ended, {"taugrid: stopped: by SIGUSR1"})) << ended.err;
  EXPECT_LT(ended.seconds, seconds);
}

TEST(Failure, ARankThatComesToNoSafePointIsNamed) {
  for (const int ranks_per_host : {0, 1}) {
    auto late = command(4, "comes-late", ranks_per_host);
    late.push_back("1.5");
    Job job(late);
    ASSERT_TRUE(job.says("waiting"));
    job.signal(SIGUSR1);
    const auto ended = job.end();
    EXPECT_EQ(ended.code, 75);
    EXPECT_TRUE(
        one_line_with(ended, {"taugrid: stopped: 1.5 s after SIGUSR1, rank 1 (",
                              ") had come to no safe point, which is doing: unit "
                              "finetune/standard/fashion: write a checkpoint; run again to continue"}))
        << ended.err;
    EXPECT_LT(ended.seconds, 1.5 + seconds);
  }
}

TEST(Failure, TermSignalToTheLauncherEndsTheJob) {
  Job job(command(4, "ignores"));
  ASSERT_TRUE(job.says("waiting"));
  job.signal(SIGTERM);
  const auto ended = job.end();
  EXPECT_NE(ended.code, 0);  // mpirun's own, see stop.hpp
  EXPECT_NE(ended.code, -1);
}

TEST(Failure, WithoutALauncherTermIsResumable) {
  Job job({PROGRAM, "waits"});
  ASSERT_TRUE(job.says("waiting"));
  job.signal(SIGTERM);
  const auto ended = job.end();
  EXPECT_EQ(ended.code, 75);
  EXPECT_EQ(ended.lines(), std::vector<std::string>{"taugrid: stopped: by SIGTERM"}) << ended.err;
}

TEST(Failure, ALauncherThatDoesNotConnectIsRefusedOnce) {
  for (const char* task : {"0", "1"}) {
    const auto ended =
        Job({"env", "SLURM_NTASKS=2", std::string("SLURM_PROCID=") + task, PROGRAM, "well"}).end();
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.lines().size(), task[0] == '0' ? 1U : 0U) << ended.err;
  }
}

}  // namespace
