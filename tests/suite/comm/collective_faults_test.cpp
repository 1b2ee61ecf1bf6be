// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Death, exception and hang of one rank at each kind of collective: all ranks are gone within seconds, one
// line says which rank and at what, and the exit code is not 0.
#include <gtest/gtest.h>

#include "tests/suite/comm/fail.hpp"

using taugrid::test::one_line_with;
using taugrid::test::run;

namespace {

class At : public ::testing::TestWithParam<const char*> {
 protected:
  std::string collective() const { return GetParam(); }
};

TEST_P(At, ADeathEndsAll) {
  const auto ended = run(3, "dies " + collective());
  EXPECT_NE(ended.code, 0);
  EXPECT_TRUE(one_line_with(ended, {"taugrid: rank 1 (", "died while doing: unit finetune/standard/fashion"}))
      << ended.err;
  EXPECT_LT(ended.seconds, 5);
}

TEST_P(At, AnExceptionEndsAll) {
  const auto ended = run(3, "throws " + collective());
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(
      one_line_with(ended, {"taugrid: rank 1 (", "failed in unit finetune/standard/fashion: loss is NaN"}))
      << ended.err;
  EXPECT_LT(ended.seconds, 5);
}

TEST_P(At, AHangEndsAllAtTheLimit) {
  const auto ended = run(3, "hangs " + collective(), 0, "1");
  EXPECT_EQ(ended.code, 1);
  const std::string rest = "missing rank 1, which is doing: unit finetune/standard/fashion";
  EXPECT_TRUE(one_line_with(ended, {"waited 1 s in " + collective(), rest}) ||
              one_line_with(ended, {"waited 1 s in barrier after it", rest}))
      << ended.err;
  EXPECT_LT(ended.seconds, 6);
}

INSTANTIATE_TEST_SUITE_P(Collectives, At,
                         ::testing::Values("barrier", "broadcast", "text-broadcast", "all-reduce",
                                           "all-reduce-beside", "foreign", "all-gather", "agreement",
                                           "split"));

TEST(Hang, OfAnotherHostIsAskedFor) {
  for (int i = 0; i < 3; ++i) {  // who asks whom first is chance
    const auto ended = run(4, "hangs all-reduce", 1 + i % 2, "1");
    EXPECT_EQ(ended.code, 1);
    EXPECT_TRUE(
        one_line_with(ended, {"waited 1 s in all-reduce", "missing rank 1, which is doing: unit finetune"}))
        << ended.err;
    EXPECT_LT(ended.seconds, 8);
  }
}

TEST(Hang, OfAStoppedProcessIsSeenToo) {
  for (const int ranks_per_host : {0, 1}) {
    const auto ended = run(3, "is-stopped all-reduce", ranks_per_host, "1");
    EXPECT_EQ(ended.code, 1);
    const auto what =
        ranks_per_host == 0 ? "missing rank 1, which is doing" : "missing rank 1, whose host gives no";
    EXPECT_TRUE(one_line_with(ended, {"waited 1 s in all-reduce", what})) << ended.err;
    EXPECT_LT(ended.seconds, 8);
  }
}

// As Slurm suspends a job: what nobody computed meanwhile is no hang.
TEST(Hang, TimeInWhichAllStoodStillDoesNotCount) {
  taugrid::test::Job job(taugrid::test::command(3, "is-slow all-reduce", 0, "3"));
  ASSERT_TRUE(job.says("# now"));
  const auto tell_ranks = [&](int what) {
    for (const int pid : job.family()) {
      if (pid != job.pid()) kill(pid, what);
    }
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  tell_ranks(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  tell_ranks(SIGCONT);
  const auto ended = job.end();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.lines().size(), 0U) << ended.err;
}

TEST(Hang, WithoutALimitNothingIsSaid) {
  const auto ended = run(2, "well", 0, "0.2");
  EXPECT_EQ(ended.code, 0) << ended.err;
}

}  // namespace
