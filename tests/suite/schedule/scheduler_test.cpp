// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/scheduler.hpp"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "suite/error.hpp"
#include "tests/suite/schedule/shared_folder.hpp"

using namespace taugrid;
using schedule::run_units;
using schedule::RunFolder;
using schedule::UnitContext;
using schedule::WorkUnit;
namespace fs = std::filesystem;

namespace {

int argc = 0;
char** argv = nullptr;

class Scheduler : public ::testing::Test {
 protected:
  // Each group's rank 0 writes down what it starts and ends, in one file for all ranks.
  void note(const std::string& line) const {
    const int file = open((base / "notes").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    const auto text = line + "\n";
    EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(file);
  }
  std::vector<std::string> notes() const {
    world.barrier("test");
    std::vector<std::string> lines;
    std::ifstream file(base / "notes");
    for (std::string line; std::getline(file, line);) {
      lines.push_back(line);
    }
    world.barrier("test");
    return lines;
  }
  static std::ptrdiff_t position(const std::vector<std::string>& lines, const std::string& line) {
    return std::find(lines.begin(), lines.end(), line) - lines.begin();
  }

  WorkUnit unit(const std::string& key, double cost = 1, std::vector<std::string> needs = {},
                int ms = 0) const {
    return {key, cost, std::move(needs), [this, key, ms](UnitContext& context) {
              if (context.group.rank() == 0) note("start " + key);
              context.progress(0.5, "half");
              std::this_thread::sleep_for(std::chrono::milliseconds(ms));
              auto sum = at::ones({3});
              context.group.all_reduce_sum(sum, "sum");
              if (context.group.rank() == 0) note("end " + key);
              return store::TensorFile{{{"sum", sum}}, {}};
            }};
  }

  schedule::RunReport run(std::vector<WorkUnit> units, int width = 1) {
    const RunFolder folder(world, base / "run", "");
    return run_units(runtime, folder, std::move(units), {.ranks_per_unit = width, .show_progress = false});
  }

  const RunFolder* open_folder = nullptr;
  comm::Runtime runtime{argc, argv};
  const comm::Communicator& world = runtime.world();
  test::SharedFolder base{world};
};

// The checkpoints that lie beside finished units may be purged.
TEST_F(Scheduler, AUnitWhoseWorkIsGoneIsComputedAgainBeforeItIsNeeded) {
  bool gone = false;
  const auto units = [&] {
    std::vector<WorkUnit> all = {unit("start"), unit("train", 1, {"start"}), unit("other"),
                                 unit("measure", 1, {"train"})};
    for (auto& each : all) {
      if (each.key != "measure")
        each.verify = [&](const auto&) { return gone ? "its checkpoint is gone" : ""; };
    }
    return all;
  };
  EXPECT_EQ(run(units()).computed, 4);
  gone = true;
  EXPECT_EQ(run(units()).computed, 0) << "nobody needs it any more";
  if (world.rank() == 0) fs::remove(base / "run/units/measure.safetensors");
  world.barrier("test");
  EXPECT_EQ(run(units()).computed, 3) << "measure, train, and what train needs";
  EXPECT_EQ(fs::exists(base / "run/units/train.safetensors.broken"), true);
  EXPECT_EQ(fs::exists(base / "run/units/other.safetensors.broken"), false);
}

TEST_F(Scheduler, ACheckpointThatCannotBeReadIsAnErrorOfAllRanks) {
  auto units = std::vector<WorkUnit>{unit("train"), unit("measure", 1, {"train"})};
  EXPECT_EQ(run({units[0]}).computed, 1);
  units[0].verify = [](const auto&) -> std::string { throw std::runtime_error("Stale file handle"); };
  EXPECT_NE(test::message_of<InputError>([&] { run(units); }).find("Stale file handle"), std::string::npos);
  EXPECT_TRUE(fs::exists(base / "run/units/train.safetensors"));
}

TEST_F(Scheduler, TenThousandFinishedUnitsStartInSeconds) {
  constexpr int count = 10'000;
  std::vector<WorkUnit> units;
  for (int i = 0; i < count; ++i) units.push_back(unit("similarity/" + std::to_string(i)));
  const RunFolder folder(world, base / "run", "");
  if (world.rank() == 0) {
    const std::string header = R"({"__metadata__":{"rank":"0","seconds":"1","device":"cpu"}})";
    const std::uint64_t length = header.size();
    for (const auto& each : units) {
      std::ofstream file(folder.unit_path(each.key), std::ios::binary);
      file.write(reinterpret_cast<const char*>(&length), sizeof length) << header;
    }
  }
  world.barrier("written");
  const double begin = runtime.elapsed();
  EXPECT_EQ(run_units(runtime, folder, units, {.show_progress = false}).skipped, count);
  const double start = runtime.elapsed() - begin;
  const auto read = [&] {
    for (const auto& each : units) static_cast<void>(folder.read_metadata(each.key));
  };
  if (world.rank() == 0) read();
  world.barrier("one reads");
  const double alone = runtime.elapsed() - begin - start;
  read();
  world.barrier("all read");
  if (world.rank() == 0)
    std::printf("start %.2f s; headers: one rank %.2f s, all %.2f s\n", start, alone,
                runtime.elapsed() - begin - start - alone);
  EXPECT_LT(start, 30);
}

TEST_F(Scheduler, ComputesEachUnitOnce) {
  std::vector<WorkUnit> units;
  for (int i = 0; i < 40; ++i) {
    units.push_back(unit(std::string("u/") + std::to_string(i)));
  }
  const auto report = run(units);
  EXPECT_EQ(report.computed, 40);
  EXPECT_EQ(report.skipped, 0);
  const auto lines = notes();
  EXPECT_EQ(lines.size(), 80U);
  for (const auto& u : units) {
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "start " + u.key), 1) << u.key;
  }
  const RunFolder folder(world, base / "run", "");
  const auto metadata = folder.read_metadata("u/7");
  EXPECT_EQ(metadata.at("key"), "u/7");
  EXPECT_LT(std::stoi(metadata.at("rank")), world.size());
  EXPECT_EQ(metadata.at("device"), "cpu");
  EXPECT_GE(std::stod(metadata.at("seconds")), 0);
  EXPECT_FALSE(metadata.contains("joules"));  // nothing counts them
  EXPECT_TRUE(fs::is_empty(base / "run/scratch"));
}

TEST_F(Scheduler, JoulesOfAUnitAreThoseOfAllItsRanks) {
  const int width = std::min(2, world.size());
  const bool odd = world.rank() % 2 == 1;
  double mine = 10;
  bool between = false;  // a unit has just ended
  std::vector<WorkUnit> units;
  for (const auto* key : {"a", "b", "c"}) {
    units.push_back(unit(key));
    units.back().compute = [&, compute = units.back().compute](UnitContext& context) {
      mine += odd ? 3 : 1.5;
      auto computed = compute(context);
      between = true;
      return computed;
    };
  }
  const RunFolder folder(world, base / "run", "");
  schedule::Options how{.ranks_per_unit = width, .show_progress = false};
  how.joules = [&] {  // what a rank takes between its units is nobody's
    if (std::exchange(between, false)) return mine;
    return mine += 1000;
  };
  how.energy_source = "rapl";
  run_units(runtime, folder, {units[0], units[1]}, how);
  for (const auto* key : {"a", "b"}) {
    const auto metadata = folder.read_metadata(key);
    EXPECT_NEAR(std::stod(metadata.at("joules")), width == 1 ? 1.5 : 4.5, 1e-6);
    EXPECT_EQ(metadata.at("energy_source"), "rapl");
  }
  if (width == 1) return;
  // One of its ranks cannot read its counter.
  how.joules = [&] { return odd ? std::numeric_limits<double>::quiet_NaN() : mine; };
  run_units(runtime, folder, units, how);
  EXPECT_FALSE(folder.read_metadata("c").contains("joules"));
}

TEST_F(Scheduler, AJobKilledJustAfterACommitLeavesNoScratch) {
  const std::vector<WorkUnit> units{unit("a"), unit("b")};
  EXPECT_EQ(run({units[0]}).computed, 1);
  world.barrier("test");
  if (world.rank() == 0) {
    fs::create_directories(base / "run/scratch/a");
    std::ofstream(base / "run/scratch/a/state.safetensors") << "steps";
  }
  EXPECT_EQ(run(units).computed, 1);
  EXPECT_FALSE(fs::exists(base / "run/scratch/a"));
}

TEST_F(Scheduler, NothingToDo) { EXPECT_EQ(run({}).computed, 0); }

TEST_F(Scheduler, ARerunComputesWhatIsMissing) {
  const std::vector<WorkUnit> units{unit("a"), unit("b", 1, {"a"}), unit("c", 1, {"b"})};
  EXPECT_EQ(run({units[0]}).computed, 1);
  auto report = run(units);
  EXPECT_EQ(report.skipped, 1);
  EXPECT_EQ(report.computed, 2);
  world.barrier("test");
  if (world.rank() == 0) {
    fs::resize_file(base / "run/units/b.safetensors", 20);  // as after a crash of the file system
  }
  world.barrier("test");
  report = run(units);
  EXPECT_EQ(report.skipped, 2);
  EXPECT_EQ(report.computed, 1);
  EXPECT_EQ(run({unit("d", 1, {"a"})}).computed, 1);  // a is there, though no longer a unit
}

TEST_F(Scheduler, DearestFirst) {
  run({unit("one", 1), unit("three", 3), unit("two", 2), unit("four", 4, {"one"})});
  if (world.size() == 1) {
    const auto lines = notes();
    EXPECT_LT(position(lines, "start three"), position(lines, "start two"));
    EXPECT_LT(position(lines, "start two"), position(lines, "start one"));
  }
}

TEST_F(Scheduler, NeedsAreCommittedBeforeUse) {
  std::vector<WorkUnit> units;
  for (int i = 0; i < 5; ++i) {
    units.push_back(unit(std::string("task/") + std::to_string(i), 1, {}, 10 * i));
  }
  for (int i = 0; i < 4; ++i) {
    const std::string a = std::string("task/") + std::to_string(i);
    const std::string b = std::string("task/") + std::to_string(i + 1);
    units.push_back(
        {std::string("pair/") + std::to_string(i), 100, {a, b}, [this, a, b](UnitContext&) {
           const RunFolder& folder = *open_folder;
           return store::TensorFile{
               {{"sum", folder.read_unit(a).tensors.at("sum") + folder.read_unit(b).tensors.at("sum")}}, {}};
         }});
  }
  const RunFolder folder(world, base / "run", "");
  open_folder = &folder;
  EXPECT_EQ(run_units(runtime, folder, units, {.show_progress = false}).computed, 9);
  EXPECT_EQ(folder.read_unit("pair/3").tensors.at("sum")[0].item<float>(), 2);
}

TEST_F(Scheduler, ASlowUnitDoesNotHoldUpTheOthers) {
  std::vector<WorkUnit> units{unit("slow", 100, {}, 700)};
  for (int i = 0; i < 10; ++i) {
    units.push_back(unit(std::string("fast") + std::to_string(i)));
  }
  run(units);
  const auto lines = notes();
  if (world.size() > 1) {
    EXPECT_EQ(lines.back(), "end slow");  // all others ended meanwhile
  }
}

TEST_F(Scheduler, GroupsOfTwo) {
  std::vector<WorkUnit> units;
  for (int i = 0; i < 6; ++i) {
    units.push_back(unit(std::string("u") + std::to_string(i)));
  }
  if (world.size() < 2) {
    EXPECT_NE(test::message_of<InputError>([&] { run(units, 2); }).find("ranks_per_unit is 2"),
              std::string::npos);
    return;
  }
  EXPECT_EQ(run(units, 2).computed, 6);
  const RunFolder folder(world, base / "run", "");
  EXPECT_EQ(folder.read_unit("u3").tensors.at("sum")[0].item<float>(), 2);  // both ranks took part
  EXPECT_EQ(std::stoi(folder.read_metadata("u3").at("rank")) % 2, 0);
}

TEST_F(Scheduler, LeftoverRanksIdle) {
  if (world.size() == 4) {
    EXPECT_EQ(run({unit("a"), unit("b")}, 3).computed, 2);
    const RunFolder folder(world, base / "run", "");
    EXPECT_EQ(folder.read_unit("b").tensors.at("sum")[0].item<float>(), 3);
  }
}

TEST_F(Scheduler, BadUnitsAreRefusedOnAllRanks) {
  EXPECT_NE(test::message_of<InputError>([&] {
              run({unit("a", 1, {"b"}), unit("b", 1, {"a"})});
            }).find("wait"),
            std::string::npos);
  EXPECT_EQ(test::message_of<InputError>([&] { run({unit("a", 1, {"z"})}); }),
            "unit a needs z, which no unit computes");
  EXPECT_NE(test::message_of<InputError>([&] { run({unit("a")}, 0); }), "");
}

TEST_F(Scheduler, RanksThatBuildOtherUnitsAreFound) {
  if (world.size() > 1) {
    EXPECT_THROW(run({unit(std::string("u") + std::to_string(world.rank()))}), std::logic_error);
  }
}

TEST_F(Scheduler, AStopLeavesTheRestForTheNextRun) {
  std::vector<WorkUnit> units;
  for (int i = 0; i < 30; ++i) {
    auto u = unit(std::string("u") + std::to_string(i), 30 - i, {}, 5);
    u.compute = [this, inner = u.compute, i](UnitContext& context) {
      if (i == 10) runtime.stop().request(SIGUSR1);
      context.stop_if_requested();
      return inner(context);
    };
    units.push_back(std::move(u));
  }
  const auto text = test::message_of<Interrupted>([&] { run(units); });
  EXPECT_NE(text.find("of 30 units done when "), std::string::npos) << text;
  const auto before = notes().size();
  EXPECT_GT(before, 0U);
  EXPECT_LT(before, 60U);
}

TEST_F(Scheduler, ATimeLimitStops) {
  const RunFolder folder(world, base / "run", "");
  const auto start = runtime.elapsed();
  const WorkUnit endless{"endless", 1, {}, [](UnitContext& context) -> store::TensorFile {
                           while (true) {
                             context.stop_if_requested();
                             std::this_thread::sleep_for(std::chrono::milliseconds(5));
                           }
                         }};
  const auto text = test::message_of<Interrupted>([&] {
    run_units(runtime, folder, {endless, unit("after", 1, {"endless"})},
              {.time_limit = start + 0.3, .show_progress = false});
  });
  EXPECT_EQ(text, "0 of 2 units done when the time limit came; run again to continue");
  EXPECT_FALSE(folder.committed("endless"));
}

}  // namespace
