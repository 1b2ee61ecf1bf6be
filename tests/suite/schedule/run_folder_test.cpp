// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/run_folder.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <fstream>

#include "suite/error.hpp"
#include "tests/suite/schedule/shared_folder.hpp"

using namespace taugrid;
using schedule::RunFolder;
namespace fs = std::filesystem;

namespace {

class Folder : public ::testing::Test {
 protected:
  std::string problem(const std::string& config, const std::string& name = "run") const {
    return test::message_of<InputError>([&] { const RunFolder run(world, base / name, config); });
  }

  comm::Communicator world{MPI_COMM_WORLD};
  test::SharedFolder base{world};
};

TEST_F(Folder, IsMadeAndFoundAgain) {
  EXPECT_EQ(problem("seed = 1\n"), "");
  for (const char* part : {"units", "log", "checkpoints", "config.toml"}) {
    EXPECT_TRUE(fs::exists(base / "run" / part)) << part;
  }
  EXPECT_EQ(problem("seed = 1\n"), "");
}

TEST_F(Folder, RefusesAnotherConfigurationAndShowsIt) {
  EXPECT_EQ(problem("seed = 1\n"), "");
  const auto text = problem("seed = 2\n");
  EXPECT_NE(text.find("another configuration (seed: 1 -> 2)"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(problem("seed = 1\n"), "");
}

TEST_F(Folder, RefusesWhileInUseAndNamesTheUser) {
  {
    const RunFolder first(world, base / "run", "seed = 1\n");
    const auto text = problem("seed = 1\n");
    EXPECT_NE(text.find("is in use by process "), std::string::npos) << text;
    EXPECT_NE(text.find(" on "), std::string::npos) << text;
    EXPECT_NE(text.find(", since 2"), std::string::npos) << text;
  }
  EXPECT_EQ(problem("seed = 1\n"), "");
}

TEST_F(Folder, AFileInTheWayIsOneLine) {
  if (world.rank() == 0) {
    std::ofstream(base / "run") << "no folder";
  }
  const auto text = problem("");
  EXPECT_NE(text.find("cannot create the run folder"), std::string::npos) << text;
}

TEST_F(Folder, RemovesLeftoversOfKilledWrites) {
  EXPECT_EQ(problem(""), "");
  const auto leftover = base / "run/units/.a.safetensors.partial.123";
  const auto unit = base / "run/units/a.safetensors";
  if (world.rank() == 0) {
    std::ofstream(leftover) << "half";
    std::ofstream(unit) << "whole";
  }
  EXPECT_EQ(problem(""), "");
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_TRUE(fs::exists(unit));
}

TEST_F(Folder, CommitsAndReadsUnits) {
  const RunFolder run(world, base / "run", "");
  const std::string key = "ntk/standard/rank-" + std::to_string(world.rank());
  EXPECT_FALSE(run.committed(key));
  EXPECT_THROW(run.read_unit(key), std::runtime_error);
  run.commit(key, {{{"gram", at::arange(6.0).reshape({2, 3})}}, {{"seconds", "1.5"}}});
  EXPECT_TRUE(run.committed(key));
  EXPECT_EQ(run.unit_path(key).filename(),
            "ntk__standard__rank-" + std::to_string(world.rank()) + ".safetensors");
  EXPECT_TRUE(at::equal(run.read_unit(key).tensors.at("gram"), at::arange(6.0).reshape({2, 3})));
  EXPECT_EQ(run.read_metadata(key).at("seconds"), "1.5");
}

TEST_F(Folder, ATruncatedUnitIsSetAside) {
  const RunFolder run(world, base / "run", "");
  if (world.rank() == 0) {
    for (const int keep : {100, 12, 4, 0}) {
      run.commit("a", {{{"x", at::zeros({100})}}, {}});
      const auto path = run.unit_path("a");
      fs::resize_file(path, keep);
      EXPECT_THROW(run.read_metadata("a"), std::runtime_error);
      EXPECT_FALSE(run.committed("a"));
      EXPECT_FALSE(fs::exists(path));
      EXPECT_TRUE(fs::exists(path.string() + ".broken"));
    }
  }
}

TEST_F(Folder, AUnitWithOffsetsThatAreNoneIsSetAside) {
  const RunFolder run(world, base / "run", "");
  if (world.rank() == 0) {
    for (const std::string offset : {"-1.8e22", "-1", "1e99", "\"4\"", "18446744073709551615"}) {
      const auto header = R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,)" + offset + "]}}";
      std::ofstream file(run.unit_path("a"), std::ios::binary);
      const std::uint64_t length = header.size();
      file.write(reinterpret_cast<const char*>(&length), sizeof length) << header << "data";
      file.close();
      EXPECT_FALSE(run.committed("a")) << offset;
    }
  }
}

}  // namespace
