// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Whole jobs that are stopped, killed and started again, as a user's shell sees them.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "tests/suite/comm/launch.hpp"

using taugrid::test::Ended;
using taugrid::test::Job;
namespace fs = std::filesystem;

namespace {

class Jobs : public ::testing::Test {
 protected:
  Jobs() {
    auto name = (fs::temp_directory_path() / "taugrid-jobs-XXXXXX").string();
    base_ = mkdtemp(name.data());
  }
  ~Jobs() override { fs::remove_all(base_); }

  std::vector<std::string> command(int ranks, const std::string& wrong = "nothing", int width = 1,
                                   const std::string& run = "run", int seed = 1) const {
    return taugrid::test::launched(
        ranks, {PROGRAM, (base_ / run).string(), wrong, std::to_string(width), std::to_string(seed)});
  }

  // The unit files without the one line that may differ: where and how long.
  std::map<std::string, std::string> units(const std::string& run = "run") const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::directory_iterator(base_ / run / "units")) {
      std::ostringstream text;
      text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      const auto bytes = text.str();
      std::uint64_t header = 0;
      bytes.copy(reinterpret_cast<char*>(&header), sizeof header);
      contents[entry.path().filename()] = bytes.substr(sizeof header + header);
    }
    return contents;
  }

  // Whether a unit has begun and saved its state.
  bool in_a_unit() const {
    std::error_code gone;  // units end meanwhile
    for (fs::recursive_directory_iterator at(base_ / "run/scratch", gone), end; !gone && at != end;
         at.increment(gone)) {
      if (at->is_regular_file(gone) && at->path().extension() == ".safetensors") return true;
    }
    return false;
  }

  fs::path base_;
};

TEST_F(Jobs, RunToTheEndAndThenHaveNothingToDo) {
  auto ended = Job(command(2)).end();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(units().size(), 21U);
  EXPECT_TRUE(ended.lines().empty()) << ended.err;
  EXPECT_EQ(ended.lines("# 0 s: 0/21 units").size(), 1U) << ended.err;
  EXPECT_TRUE(fs::exists(base_ / "run/log/rank-00001.log"));
  ended = Job(command(2)).end();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.lines("# 0 s: 21/21 units, 100 %").size(), 1U) << ended.err;
}

TEST_F(Jobs, NumbersAreTheSameOnAnyNumberOfRanks) {
  EXPECT_EQ(Job(command(1, "nothing", 1, "one")).end().code, 0);
  EXPECT_EQ(Job(command(4, "nothing", 1, "four")).end().code, 0);
  EXPECT_EQ(units("one"), units("four"));
}

TEST_F(Jobs, AUnitThatThrowsEndsAllRanks) {
  Job job(command(4, "throws"));
  ASSERT_TRUE(job.says("# 0 s"));
  const auto start = std::chrono::steady_clock::now();
  const auto ended = job.end();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(ended.code, 1);
  ASSERT_EQ(ended.lines().size(), 1U) << ended.err;
  EXPECT_NE(ended.lines()[0].find("failed in run units: unit finetune/standard/task3: loss is NaN"),
            std::string::npos)
      << ended.err;
}

TEST_F(Jobs, ARankKilledInAUnitIsNamed) {
  for (const int width : {1, 2}) {
    Job job(command(4, "dies", width, "run" + std::to_string(width)));
    ASSERT_TRUE(job.says("# 0 s"));
    const auto start = std::chrono::steady_clock::now();
    const auto ended = job.end();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_TRUE(ended.code == 1 || ended.code == 137) << ended.code;
    ASSERT_EQ(ended.lines().size(), 1U) << ended.err;
    EXPECT_NE(ended.lines()[0].find("taugrid: rank 1 ("), std::string::npos) << ended.err;
    EXPECT_NE(ended.lines()[0].find("died while doing: run units: unit finetune/standard/task"),
              std::string::npos)
        << ended.err;
  }
}

TEST_F(Jobs, AStoppedJobContinues) {
  ASSERT_EQ(Job(command(2, "nothing", 2, "whole")).end().code, 0);
  Job job(command(2, "nothing", 2));
  ASSERT_TRUE(job.says("# 0 s"));
  for (int i = 0; i < 20000 && !in_a_unit(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  job.signal(SIGUSR1);
  auto ended = job.end();
  EXPECT_EQ(ended.code, 75) << ended.err;
  ASSERT_EQ(ended.lines().size(), 1U) << ended.err;
  EXPECT_NE(ended.lines()[0].find("units done when SIGUSR1 came; run again to continue"), std::string::npos);
  EXPECT_LT(units().size(), 21U);
  EXPECT_FALSE(fs::is_empty(base_ / "run/scratch"));
  ended = Job(command(2, "nothing", 2)).end();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(units(), units("whole"));
}

TEST_F(Jobs, KilledAtAnyTimeTheyEndWithTheSameBytes) {
  ASSERT_EQ(Job(command(1, "nothing", 1, "whole")).end().code, 0);
  std::mt19937 random(7);
  int code = -1;
  int kills = 0;
  for (const int ranks : {2, 1, 4, 2, 1, 4, 2, 2}) {
    Job job(command(ranks));
    if (kills < 6) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300 + random() % 1000));
      for (const int pid : job.family()) {
        kill(pid, SIGKILL);
      }
      ++kills;
      job.end();
      continue;
    }
    code = job.end().code;
  }
  EXPECT_EQ(code, 0);
  EXPECT_EQ(units(), units("whole"));
}

TEST_F(Jobs, ASecondJobInTheFolderAndAnotherConfigurationAreRefused) {
  Job first(command(2));
  ASSERT_TRUE(first.says("# 0 s"));
  const auto tell_ranks = [&](int what) {
    for (const int pid : first.family()) {
      if (pid != first.pid()) kill(pid, what);
    }
  };
  tell_ranks(SIGSTOP);  // it shall not end before the second has looked
  auto ended = Job(command(2)).end();
  tell_ranks(SIGCONT);
  EXPECT_EQ(ended.code, 2);
  ASSERT_EQ(ended.lines().size(), 1U) << ended.err;
  EXPECT_NE(ended.lines()[0].find("is in use by process "), std::string::npos) << ended.err;
  EXPECT_EQ(first.end().code, 0);  // undisturbed
  ended = Job(command(2, "nothing", 1, "run", 2)).end();
  EXPECT_EQ(ended.code, 2);
  ASSERT_EQ(ended.lines().size(), 1U) << ended.err;
  EXPECT_NE(ended.lines()[0].find("another configuration (seed: 1 -> 2)"), std::string::npos) << ended.err;
}

}  // namespace
