// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/plan/profile.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "suite/error.hpp"
#include "suite/plan/forecast.hpp"

namespace taugrid::plan {
namespace {

namespace fs = std::filesystem;

class ProfileTest : public ::testing::Test {
 protected:
  ProfileTest() {
    auto name = (fs::temp_directory_path() / "taugrid-XXXXXX").string();
    folder = mkdtemp(name.data());
    path = folder / "profile.json";
    profile.host = "node1";
    profile.processor = "a processor";
    profile.cores = 4;
    profile.memory_bytes = 1e10;
    profile.threads_per_rank = 2;
    profile.model_parameters = 1000;
    profile.rates = {{"forward", {0.5, 1e9}}, {"train/linear", {0, 2e9}}};
    profile.crowding = 1.25;
    profile.start_seconds = 0.5;
    profile.unit_seconds = 0.125;
    profile.open_seconds = 1e-5;
    profile.read_bytes_per_second = 1e9;
    profile.write_bytes_per_second = 1e8;
    profile.process_bytes = 2e8;
    profile.versions = {{"taugrid", "0.1.0"}};
    profile.trace = {{{"finetune/linear/a", 12.5}}, 2, 6, 2, "[run]\nname = \"x\"\n"};
  }
  ~ProfileTest() override { fs::remove_all(folder); }

  std::string problem_of(const std::string& text) const {
    std::ofstream(path) << text;
    try {
      read_profile(path);
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "";
  }

  fs::path folder, path;
  Profile profile;
};

TEST_F(ProfileTest, ComesBackAsItWas) {
  write_profile(path, profile);
  const auto again = read_profile(path);
  EXPECT_EQ(again.processor, "a processor");
  EXPECT_EQ(again.rates.at("forward").call_seconds, 0.5);
  EXPECT_EQ(again.rates.at("train/linear").flops_per_second, 2e9);
  EXPECT_EQ(again.trace.seconds.at("finetune/linear/a"), 12.5);
  EXPECT_EQ(again.trace.ranks_per_host, 2);
  EXPECT_EQ(again.trace.groups, 6);
  EXPECT_EQ(again.trace.ranks_per_unit, 2);
  EXPECT_EQ(again.trace.config, profile.trace.config);
  std::ifstream first(path);
  const std::string text((std::istreambuf_iterator<char>(first)), {});
  write_profile(folder / "again.json", again);
  std::ifstream second(folder / "again.json");
  EXPECT_EQ(text, std::string((std::istreambuf_iterator<char>(second)), {}));
}

TEST_F(ProfileTest, AnythingElseIsRefusedInOneLine) {
  write_profile(path, profile);
  std::ifstream in(path);
  const auto good = nlohmann::json::parse(in);
  EXPECT_EQ(problem_of(good.dump()), "");
  for (const auto& [key, value] : good.items()) {
    if (key.starts_with("units")) continue;
    auto without = good;
    without.erase(key);
    EXPECT_NE(problem_of(without.dump()).find(key + " is missing"), std::string::npos) << key;
    for (const nlohmann::json& wrong :
         {nlohmann::json("text"), nlohmann::json(-1), nlohmann::json(nullptr)}) {
      auto spoilt = good;
      spoilt[key] = wrong;
      EXPECT_NE(problem_of(spoilt.dump()), "") << key << wrong;
    }
  }
  auto nothing = good;
  nothing["together"] = {{"ranks", 2},
                         {"sum_seconds", nlohmann::json::object()},
                         {"gather_seconds", {{"8", 1e-5}}},
                         {"write_bytes_per_second", 1},
                         {"read_bytes_per_second", 1},
                         {"results_bytes_per_second", 1}};
  EXPECT_EQ(problem_of(nothing.dump()),
            path.string() + ": together: sum_seconds is empty; expected seconds of one call at least");
  auto negative = good;
  negative["rates"]["forward"]["flops_per_second"] = 0;
  EXPECT_EQ(problem_of(negative.dump()),
            path.string() + ": rates: forward: flops_per_second is 0; expected a number above 0");
  auto unit = good;
  unit["units"]["finetune/linear/a"] = -0.5;
  EXPECT_EQ(problem_of(unit.dump()),
            path.string() + ": units: finetune/linear/a is -0.5; expected a number of at least 0");
  auto future = good;
  future["schema_version"] = 2;
  EXPECT_EQ(problem_of(future.dump()), path.string() + ": schema_version is 2; expected 1");
  auto nan = good.dump();
  nan.replace(nan.find("0.125"), 5, "NaN");
  EXPECT_NE(problem_of(nan).find("is not JSON"), std::string::npos);
  auto infinite = good.dump();
  infinite.replace(infinite.find("0.125"), 5, "1e999");
  EXPECT_NE(problem_of(infinite).find("is not JSON"), std::string::npos);
  EXPECT_NE(problem_of("").find("is not JSON"), std::string::npos);
  EXPECT_NE(problem_of("[1, 2]").find("is not a JSON object"), std::string::npos);
  EXPECT_NE(problem_of(good.dump().substr(0, 50)).find("is not JSON"), std::string::npos);
  EXPECT_THROW(read_profile(folder), InputError);
  EXPECT_THROW(read_profile(folder / "absent.json"), InputError);
}

TEST_F(ProfileTest, SecondsAreCallsAndFlopsOrThoseRecorded) {
  schedule::WorkUnit unit{"finetune/linear/b", 1, {}, {}};
  unit.load.work = {{"train/linear", 10, 4, 0, 1e9, nullptr}, {"forward", 3, 4, 0, 1e8, nullptr}};
  unit.load.bytes_read = 2e9;
  unit.load.bytes_stored = 1e7;
  // 0.125 asking, 0.1 storing, 2 reading, 10 · 0.5 training, 3 · (0.5 + 0.1) forward.
  EXPECT_DOUBLE_EQ(unit_seconds({unit}, profile, 1)[0], 0.125 + 0.1 + 2 + 5 + 1.8);
  // Two ranks of two threads filled the host's four cores when this one was recorded.
  unit.key = "finetune/linear/a";
  EXPECT_DOUBLE_EQ(unit_seconds({unit}, profile, 1)[0], 0.125 + 0.1 + 12.5 / 1.25);
  EXPECT_TRUE(missing_rates({unit}, profile).empty());
  unit.ranks = 7;  // four of the six groups of two ranks computed it together
  EXPECT_DOUBLE_EQ(unit_seconds({unit}, profile, 1)[0], 0.125 + 0.1 + 4 * 12.5 / 1.25);
  unit.ranks = 100;
  EXPECT_DOUBLE_EQ(unit_seconds({unit}, profile, 1)[0], 0.125 + 0.1 + 6 * 12.5 / 1.25);
  unit.ranks = 1;
  unit.key = "other";
  unit.load.work.push_back({"gram", 1, 4, 2, 1e8, nullptr});
  EXPECT_EQ(missing_rates({unit}, profile), std::vector<std::string>{"gram"});
}

TEST_F(ProfileTest, WhatRanksExchangeTakesWhatTheyMeasuredTogether) {
  profile.together.ranks = 2;
  profile.together.sums = {{8, 1e-5}, {4096, 2e-5}, {1 << 20, 1e-3}};
  profile.together.gathers = {{4096, 1e-5}, {1 << 20, 5e-4}};
  const auto& together = profile.together;
  EXPECT_DOUBLE_EQ(together.sum_seconds(4, 2), 1e-5);
  EXPECT_DOUBLE_EQ(together.sum_seconds(4096, 2), 2e-5);
  EXPECT_DOUBLE_EQ(together.sum_seconds((4096 + (1 << 20)) / 2.0, 2), (2e-5 + 1e-3) / 2);
  EXPECT_DOUBLE_EQ(together.sum_seconds(8 << 20, 2), 8e-3);
  // Between four ranks 3/4 of the bytes cross a link, and twice as many for sums; between two 1/2.
  EXPECT_DOUBLE_EQ(together.sum_seconds(1 << 20, 4), 1.5e-3);
  EXPECT_DOUBLE_EQ(together.gather_seconds(4096, 4), 1.5e-5);

  schedule::WorkUnit unit{"finetune/linear/b", 1, {}, {}};
  unit.load.work = {{schedule::sums_over_ranks, 10, 1 << 18, 0, 1, nullptr},
                    {schedule::gathers_of_ranks, 4, 1024, 0, 1, nullptr}};
  EXPECT_DOUBLE_EQ(unit_seconds({unit}, profile, 2)[0], 0.125 + 10 * 1e-3 + 4 * 1e-5);
  EXPECT_DOUBLE_EQ(unit.load.bytes_exchanged(), 10 * 1048576.0 + 4 * 4096.0);
  EXPECT_TRUE(missing_rates({unit}, profile).empty());

  profile.together.results_bytes_per_second = 1e7;
  write_profile(path, profile);
  const auto again = read_profile(path).together;
  EXPECT_EQ(again.ranks, 2);
  EXPECT_EQ(again.sums, together.sums);
  EXPECT_EQ(again.gathers, together.gathers);
  EXPECT_EQ(again.results_bytes_per_second, 1e7);
  std::ifstream in(path);
  auto spoilt = nlohmann::json::parse(in);
  spoilt["together"]["sum_seconds"]["many"] = 1;
  EXPECT_EQ(problem_of(spoilt.dump()), path.string() + ": together: sum_seconds: many is no number of bytes");
  spoilt["together"]["sum_seconds"].erase("many");
  spoilt["together"]["ranks"] = 1;
  EXPECT_EQ(problem_of(spoilt.dump()), path.string() + ": together: ranks is 1; expected two or more");
}

TEST_F(ProfileTest, ATraceOfAnotherExperimentIsRefused) {
  const Trace trace{{}, 1, 1, 1, "[finetune]\nsteps = 150\n[model]\npath = \"/a\"\n[run]\nname = \"x\"\n"};
  EXPECT_NO_THROW(require_same_experiment(
      trace, "[finetune]\nsteps = 150\n[model]\npath = \"/b\"\n[run]\nname = \"y\"\n", "p"));
  try {
    require_same_experiment(trace, "[finetune]\nsteps = 300\n[model]\npath = \"/a\"\n[run]\nname = \"x\"\n",
                            "p");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("finetune.steps: 150 -> 300"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace taugrid::plan
