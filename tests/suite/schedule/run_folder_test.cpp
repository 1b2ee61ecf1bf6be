// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/run_folder.hpp"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include "suite/error.hpp"
#include "suite/schedule/detail/owner.hpp"
#include "suite/store/atomic_file.hpp"
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
  EXPECT_NE(text.find("cannot create the folder"), std::string::npos) << text;
}

TEST_F(Folder, RemovesLeftoversOfKilledWrites) {
  EXPECT_EQ(problem(""), "");
  const auto leftovers = {base / "run/units/.a.safetensors.partial.host.0123456789abcdef",
                          base / "run/.results.h5.partial.host.0123456789abcdef",
                          base / "run/.results.h5.partial.host.0123456789abcdef.locktest.1"};
  const auto unit = base / "run/units/a.safetensors";
  const auto of_others = {base / "run/.data.partial", base / "run/checkpoints/.a.partial.123",
                          base / "run/.mine.locktest.1"};
  if (world.rank() == 0) {
    for (const auto& each : leftovers) std::ofstream(each) << "half";
    for (const auto& each : of_others) std::ofstream(each) << "somebody's";
    std::ofstream(unit) << "whole";
  }
  EXPECT_EQ(problem(""), "");
  for (const auto& each : leftovers) EXPECT_FALSE(fs::exists(each)) << each;
  EXPECT_TRUE(fs::exists(unit));
  for (const auto& each : of_others) EXPECT_TRUE(fs::exists(each)) << each;
}

TEST_F(Folder, CommitsAndReadsUnits) {
  RunFolder::Care care;
  care.unseen = std::chrono::milliseconds(1);
  const RunFolder run(world, base / "run", "", care);
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

TEST_F(Folder, AUnitThatOneRankReadsIsTheSameOnAll) {
  RunFolder::Care care;
  care.unseen = std::chrono::milliseconds(1);
  const RunFolder run(world, base / "run", "", care);
  const store::TensorFile unit{{{"curve", at::arange(6.0, at::kDouble).reshape({2, 3})},
                                {"correct", at::tensor({1, 0, 1}, at::kByte)},
                                {"one", at::full({}, 7, at::kLong)},
                                {"none", at::zeros({0, 4}, at::kFloat)}},
                               {{"device", "cpu"}}};
  if (world.rank() == 0) run.commit("a", unit);
  const auto read = run.read_unit(world, "a");
  EXPECT_EQ(read.metadata, unit.metadata);
  ASSERT_EQ(read.tensors.size(), unit.tensors.size());
  for (const auto& [name, tensor] : unit.tensors) {
    const auto& ours = read.tensors.at(name);
    EXPECT_EQ(ours.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(ours, tensor)) << name;
  }
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

// As NFS does while it remembers that a name was absent.
TEST_F(Folder, AUnitThatIsNotYetSeenIsWaitedFor) {
  const RunFolder run(world, base / "run", "");
  if (world.rank() == 0) {
    const std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      run.commit("late", {{{"x", at::ones({3})}}, {{"rank", "1"}}});
    });
    EXPECT_EQ(run.read_metadata("late").at("rank"), "1");
    EXPECT_TRUE(at::equal(run.read_tensor("late", "x"), at::ones({3})));
  }
}

TEST_F(Folder, AUnitThatCannotBeReadIsNoBrokenOne) {
  const RunFolder run(world, base / "run", "");
  if (world.rank() == 0) {
    run.commit("a", {{{"x", at::ones({3})}}, {}});
    const auto path = run.unit_path("a"), aside = base / "aside";
    fs::rename(path, aside);
    fs::create_symlink(path, path);  // too many levels: whoever may read everything cannot
    try {
      run.committed("a");
      ADD_FAILURE() << "no error";
    } catch (const store::ReadFailure& failure) {
      EXPECT_NE(std::string(failure.what()).find("a.safetensors: cannot be read: Too many levels"),
                std::string::npos)
          << failure.what();
    }
    EXPECT_TRUE(fs::is_symlink(path)) << "set aside";
    fs::remove(path);
    fs::rename(aside, path);

    // Out of files for a while: tried again.
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    const auto few = rlimit{0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    const std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      setrlimit(RLIMIT_NOFILE, &before);
    });
    EXPECT_TRUE(run.committed("a"));
    EXPECT_TRUE(fs::exists(path));
  }
}

/// A job on another host, as its owner file tells it.
class Elsewhere {
 public:
  Elsewhere(const fs::path& run, bool lives) : path_(run / ".owner") {
    owner_ = schedule::detail::this_process();
    owner_.who = "process 7 on node9";
    owner_.machine = "another";
    say();
    if (!lives) return;
    thread_ = std::jthread([this](const std::stop_token& token) {
      for (; !token.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(100))) say();
    });
  }

 private:
  void say() {
    ++owner_.beat;
    store::write_atomically(path_, schedule::detail::text_of(owner_));
  }
  fs::path path_;
  schedule::detail::Owner owner_;
  std::jthread thread_;
};

// Locks of Lustre and of NFS may be local to a host: there, both jobs get one.
TEST_F(Folder, AJobElsewhereThatLivesKeepsItsFolder) {
  EXPECT_EQ(problem(""), "");
  std::unique_ptr<Elsewhere> other;
  if (world.rank() == 0) other = std::make_unique<Elsewhere>(base / "run", true);
  world.barrier("begun");
  const auto text = problem("");
  EXPECT_NE(text.find("is in use by process 7 on node9"), std::string::npos) << text;
}

TEST_F(Folder, AfterANodesDeathTheFolderIsTakenOver) {
  EXPECT_EQ(problem(""), "");
  if (world.rank() == 0) const Elsewhere dead(base / "run", false);
  RunFolder::Care care;
  care.hold = {std::chrono::milliseconds(100), std::chrono::seconds(2)};
  const auto begin = std::chrono::steady_clock::now();
  const RunFolder run(world, base / "run", "", care);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  if (world.rank() == 0) {
    for (const auto& entry : fs::directory_iterator(base / "run")) {
      EXPECT_EQ(entry.path().string().find(".owner."), std::string::npos) << entry.path();
    }
  }
}

TEST_F(Folder, ALockThatLeadsElsewhereIsNotWrittenThrough) {
  const auto lock = base / "run" / ".lock", precious = base / "precious";
  if (world.rank() == 0) {
    fs::create_directories(base / "run");
    std::ofstream(precious) << "somebody's";
    fs::create_symlink(precious, lock);
  }
  world.barrier("test");
  EXPECT_NE(problem("").find(".lock is a link"), std::string::npos);
  if (world.rank() == 0) {
    std::string text;
    std::getline(std::ifstream(precious), text);
    EXPECT_EQ(text, "somebody's");
    fs::remove(lock);
    ::mkfifo(lock.c_str(), 0600);
  }
  world.barrier("test");
  EXPECT_NE(problem("").find(".lock is no plain file"), std::string::npos);
  if (world.rank() == 0) fs::remove(lock);
  world.barrier("test");
  EXPECT_EQ(problem(""), "");
}

// A file server keeps the lock of a client that died until its lease ends.
TEST_F(Folder, ALockThatADeadNodeLeftIsWaitedFor) {
  EXPECT_EQ(problem(""), "");
  std::jthread server;
  if (world.rank() == 0) {
    const Elsewhere dead(base / "run", false);
    const int lock = ::open((base / "run" / ".lock").c_str(), O_RDWR | O_CLOEXEC);
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(lock, F_OFD_SETLK, &whole), 0);
    server = std::jthread([lock] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      ::close(lock);
    });
  }
  world.barrier("locked");
  RunFolder::Care care;
  care.hold = {std::chrono::milliseconds(100), std::chrono::seconds(2)};
  const auto begin = std::chrono::steady_clock::now();
  const RunFolder run(world, base / "run", "", care);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST_F(Folder, AJobWhoseFolderWasTakenOverEnds) {
  RunFolder::Care care;
  care.hold = {std::chrono::milliseconds(100), std::chrono::seconds(2)};
  std::promise<std::string> lost;
  care.lost = [&](const std::string& problem) { lost.set_value(problem); };
  const RunFolder run(world, base / "run", "", care);
  if (world.rank() == 0) {
    const Elsewhere taker(base / "run", false);
    auto said = lost.get_future();
    ASSERT_EQ(said.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    const auto text = said.get();
    EXPECT_NE(text.find("was taken over by process 7 on node9"), std::string::npos) << text;
  }
}

TEST_F(Folder, ARankThatReadsAnotherConfigurationIsNamed) {
  if (world.size() == 1) GTEST_SKIP();
  const auto text = problem(world.rank() == 1 ? "seed = 2\n" : "seed = 1\n");
  EXPECT_NE(text.find("rank 1: reads another configuration than rank 0 (seed: 1 -> 2)"), std::string::npos)
      << text;
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
