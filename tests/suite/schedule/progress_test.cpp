// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/progress.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

using taugrid::schedule::Progress;

namespace {

TEST(Progress, TellsShareRateAndTimeLeft) {
  std::FILE* out = std::tmpfile();
  Progress progress(out, 4, 100, 1, 20);
  EXPECT_EQ(progress.line(0), "# 0 s: 1/4 units, 20 % of the predicted work");
  progress.started(2, "ntk/standard", 40);
  progress.finished(2);
  progress.started(3, "finetune/standard/fashion", 40);
  progress.advanced(3, 0.5, "step 5 of 10");
  // 60 of 100 in this run's 120 s: 20 are left, at the same pace 40 s.
  EXPECT_EQ(progress.line(120),
            "# 2 min 00 s: 2/4 units, 80 % of the predicted work, 0.5 units/min, about 40 s left; now "
            "finetune/standard/fashion 50 % (step 5 of 10)");
  std::fclose(out);
}

// A line comes every ten seconds: six of them in a row are not to say the same.
TEST(Progress, TellsSecondsWithinAnHour) {
  std::FILE* out = std::tmpfile();
  const Progress progress(out, 2, 2, 0, 0);
  const auto elapsed = [&](double seconds) {
    const auto line = progress.line(seconds);
    return line.substr(2, line.find(':') - 2);
  };
  EXPECT_EQ(elapsed(59.4), "59 s");
  EXPECT_EQ(elapsed(59.6), "1 min 00 s");
  EXPECT_EQ(elapsed(70), "1 min 10 s");
  EXPECT_EQ(elapsed(3599), "59 min 59 s");
  EXPECT_EQ(elapsed(3600), "1 h 00 min");
  EXPECT_EQ(elapsed(7380), "2 h 03 min");
  std::fclose(out);
}

TEST(Progress, NamesThreeAndCountsTheRest) {
  std::FILE* out = std::tmpfile();
  Progress progress(out, 9, 9, 0, 0);
  for (int i = 0; i < 5; ++i) {
    progress.started(i, std::string("u") + std::to_string(i), 1);
  }
  progress.stopped(0);
  EXPECT_EQ(progress.line(1), "# 1 s: 0/9 units, 0 % of the predicted work; now u1, u2, u3 and 1 more");
  std::fclose(out);
}

TEST(Progress, FirstLineAtOnceThenSeldom) {
  std::FILE* out = std::tmpfile();
  Progress progress(out, 2, 2, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    progress.refresh();
  }
  progress.started(0, "a", 1);
  progress.finished(0);
  progress.refresh(true);
  std::rewind(out);
  int lines = 0;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) {
    lines += c == '\n' ? 1 : 0;
    EXPECT_NE(c, '\r');
  }
  EXPECT_EQ(lines, 2);
  std::fclose(out);
}

}  // namespace
