// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Runs at 1, 2 and 4 ranks; the file must be the same each time.
#include "suite/store/results.hpp"

#include <ATen/ATen.h>
#include <hdf5_hl.h>
#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "suite/store/atomic_file.hpp"
#include "tests/suite/store/scratch.hpp"

namespace {

using namespace taugrid::store;
using namespace taugrid::testing;
namespace comm = taugrid::comm;

constexpr std::int64_t tasks = 5;

int rank_in(MPI_Comm communicator) {
  int rank = 0;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

/// One folder for all ranks, removed by rank 0 at the end.
class Results : public ::testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    if (rank_ == 0) {
      scratch_ = std::make_unique<Scratch>("results");
      const std::string name = (*scratch_ / "").string();
      name.copy(name_.data(), name_.size() - 1);
    }
    MPI_Bcast(name_.data(), static_cast<int>(name_.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    folder_ = name_.data();
  }
  void TearDown() override { MPI_Barrier(MPI_COMM_WORLD); }

  /// What an experiment would write, rows dealt to the ranks of the communicator.
  static void write(const std::filesystem::path& path, MPI_Comm communicator) {
    int ranks = 1;
    MPI_Comm_size(communicator, &ranks);
    const int rank = rank_in(communicator);
    ResultsWriter writer(path, comm::Communicator(communicator));
    writer.attribute("/", "schema_version", std::int64_t{1});
    // Ranks disagree here, as clocks do: rank 0's counts.
    writer.attribute("/", "started_utc", "rank " + std::to_string(rank));
    writer.attribute("/provenance", "hosts", std::vector<std::string>{"a", ""});
    writer.attribute("/provenance", "none", std::vector<double>{});
    writer.attribute("/provenance", "nan", std::nan(""));
    writer.scale("/tasks/name", {"a", "bb", "größe", "", "e"}, "task");
    writer.scale("/d/alpha", at::tensor({-1.0, 0.0, 1.0}, at::kFloat), "alpha");
    writer.create("/s/cosine", Element::float64, {tasks, tasks}, {"task", "task"}, "1");
    for (std::int64_t row = 0; row < tasks; ++row) {
      const std::vector<double> numbers(tasks, static_cast<double>(row));
      std::vector<Slab> mine;
      if (row % ranks == rank) mine.push_back({{row, 0}, {1, tasks}, numbers.data()});
      writer.write_slabs("/s/cosine", mine);
      EXPECT_TRUE(writer.last_write_was_collective());
    }
    // Blocks [t, :, s, :]: several a rank, or none.
    writer.create("/ntk/gram", Element::float32, {tasks, 2, tasks, 3}, {"task", "point", "task", "/d/alpha"});
    std::vector<std::vector<float>> values;
    std::vector<Slab> slabs;
    for (std::int64_t unit = 0; unit < tasks * tasks; ++unit) {
      if (unit % ranks == rank) {
        values.emplace_back(6, static_cast<float>(unit));
        slabs.push_back({{unit / tasks, 0, unit % tasks, 0}, {1, 2, 1, 3}, values.back().data()});
      }
    }
    writer.write_slabs("/ntk/gram", slabs);
    EXPECT_TRUE(writer.last_write_was_collective());
    // A second point count needs a scale of its own.
    writer.put("/tau/value", at::arange(4, at::kLong), {"point"});
    writer.put("/tau/flag", at::tensor({1, 0}).to(at::kBool), {"point"});
    writer.put("/tau/scalar", at::scalar_tensor(2.5, at::kFloat), {}, "s");
    EXPECT_TRUE(writer.last_write_was_collective());
    writer.create("/tau/one", Element::int32, {}, {});
    const std::int32_t seven = 7;
    writer.write_slabs("/tau/one",
                       rank == ranks - 1 ? std::vector<Slab>{{{}, {}, &seven}} : std::vector<Slab>{});
    EXPECT_TRUE(writer.last_write_was_collective());
    writer.create("/tau/unmeasured", Element::float64, {2}, {"point"});
    writer.put("/pairs/empty", at::empty({0, 2}, at::kLong), {"pair", "point"});
    writer.put_text("/tasks/label", {"x", "yy", "", "zzz", "é"}, "task");
    writer.units(rank == 0 ? std::vector<UnitRow>{{"u/0", 0, 0.5, "cpu"}, {"u/1", 1, 1.5, "NVIDIA"}}
                           : std::vector<UnitRow>{});
    writer.attribute("/s/cosine", "metric", std::string("kl"));
    writer.commit();
  }

  int rank_ = rank_in(MPI_COMM_WORLD);
  int ranks_ = 1;
  std::unique_ptr<Scratch> scratch_;
  std::array<char, 512> name_{};
  std::filesystem::path folder_;
};

/// Whether files of unfinished writes are in the folder.
bool unfinished(const std::filesystem::path& folder) {
  return std::any_of(std::filesystem::directory_iterator(folder), {}, [](const auto& entry) {
    return entry.path().filename().string().find(".partial") != std::string::npos;
  });
}

TEST_F(Results, BytesDoNotDependOnTheRanks) {
  write(folder_ / "all.h5", MPI_COMM_WORLD);
  if (rank_ == 0) {
    write(folder_ / "one.h5", MPI_COMM_SELF);
    EXPECT_EQ(read_bytes(folder_ / "all.h5"), read_bytes(folder_ / "one.h5"));
    EXPECT_FALSE(unfinished(folder_));
  }
}

TEST_F(Results, ContentIsWhatTheRanksWrote) {
  write(folder_ / "r.h5", MPI_COMM_WORLD);
  const Hdf5File file(folder_ / "r.h5");
  std::vector<double> cosine(tasks * tasks);
  file.read("/s/cosine", Element::float64, cosine.data(), cosine.size() * sizeof(double));
  std::vector<float> gram(tasks * 2 * tasks * 3);
  file.read("/ntk/gram", Element::float32, gram.data(), gram.size() * sizeof(float));
  for (std::int64_t t = 0; t < tasks; ++t) {
    for (std::int64_t s = 0; s < tasks; ++s) {
      EXPECT_EQ(cosine[t * tasks + s], t);
      for (std::int64_t i = 0; i < 2; ++i) {
        EXPECT_EQ(gram[((t * 2 + i) * tasks + s) * 3 + 2], t * tasks + s);
      }
    }
  }
  std::int32_t scalar = 0;
  file.read("/tau/one", Element::int32, &scalar, sizeof scalar);
  EXPECT_EQ(scalar, 7);
  std::array<double, 2> unmeasured{};
  file.read("/tau/unmeasured", Element::float64, unmeasured.data(), sizeof unmeasured);
  EXPECT_TRUE(std::isnan(unmeasured[0]) && std::isnan(unmeasured[1]));
  EXPECT_EQ(file.info("/pairs/empty").shape, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(file.strings("/tasks/name"), (std::vector<std::string>{"a", "bb", "größe", "", "e"}));
  EXPECT_EQ(file.text_attribute("/", "started_utc"), "rank 0");
  EXPECT_EQ(file.text_attribute("/s/cosine", "metric"), "kl");
  EXPECT_EQ(file.text_attribute("/s/cosine", "units"), "1");
  EXPECT_EQ(file.number_attribute("/", "schema_version"), std::vector<double>{1});
  EXPECT_EQ(file.number_attribute("/", "absent"), std::nullopt);
}

TEST_F(Results, UnitsHaveJoulesWhereSomethingCountsThem) {
  const auto table = [&](const std::string& name, const std::vector<UnitRow>& rows) {
    ResultsWriter writer(folder_ / name, comm::Communicator(MPI_COMM_WORLD));
    writer.units(rank_ == 0 ? rows : std::vector<UnitRow>{});
    writer.commit();
    return Hdf5File(folder_ / name);
  };
  const auto counted =
      table("counted.h5", {{"u/0", 0, 0.5, "cpu"}, {"u/1", 1, 1.5, "NVIDIA", 20.25, "rapl+nvml"}});
  const auto joules = counted.text_and_number("/units", "key", "joules");
  ASSERT_EQ(joules.size(), 2U);
  EXPECT_TRUE(std::isnan(joules[0].second));
  EXPECT_EQ(joules[1], (std::pair<std::string, double>{"u/1", 20.25}));
  EXPECT_EQ(counted.text_and_number("/units", "energy_source", "seconds")[1],
            (std::pair<std::string, double>{"rapl+nvml", 1.5}));
  const auto uncounted = table("uncounted.h5", {{"u/0", 0, 0.5, "cpu"}});
  EXPECT_EQ(uncounted.text_and_number("/units", "device", "seconds")[0],
            (std::pair<std::string, double>{"cpu", 0.5}));
  EXPECT_ANY_THROW(uncounted.text_and_number("/units", "key", "joules"));
}

TEST_F(Results, ScalesAreAttached) {
  write(folder_ / "r.h5", MPI_COMM_WORLD);
  const Handle file = handle_of(H5Fopen((folder_ / "r.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open");
  const auto attached = [&](const std::string& path, unsigned dimension, const std::string& scale) {
    const Handle dataset = handle_of(H5Dopen2(file, path.c_str(), H5P_DEFAULT), path);
    const Handle other = handle_of(H5Dopen2(file, scale.c_str(), H5P_DEFAULT), scale);
    return H5DSis_scale(other) > 0 && H5DSis_attached(dataset, other, dimension) > 0;
  };
  EXPECT_TRUE(attached("/s/cosine", 0, "/tasks/name"));
  EXPECT_TRUE(attached("/s/cosine", 1, "/tasks/name"));
  EXPECT_TRUE(attached("/ntk/gram", 3, "/d/alpha"));
  EXPECT_TRUE(attached("/ntk/gram", 1, "/dimensions/point"));
  EXPECT_TRUE(attached("/tau/value", 0, "/dimensions/point_4"));
  EXPECT_TRUE(attached("/tau/flag", 0, "/dimensions/point"));
  EXPECT_TRUE(attached("/units", 0, "/dimensions/unit"));
}

TEST_F(Results, AbsentUnlessCommitted) {
  {
    ResultsWriter writer(folder_ / "r.h5", comm::Communicator(MPI_COMM_WORLD));
    writer.put("/x", at::ones({2}), {"n"});
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r.h5"));
  EXPECT_FALSE(unfinished(folder_));
}

TEST_F(Results, AStopOnOneRankStopsAll) {
  comm::StopRequest stop;
  ResultsWriter writer(folder_ / "r.h5", comm::Communicator(MPI_COMM_WORLD), &stop);
  writer.put("/x", at::ones({2}), {"n"});
  if (rank_ == ranks_ - 1) stop.request(comm::StopRequest::time_limit);
  try {
    writer.put("/y", at::ones({2}), {"n"});
    ADD_FAILURE() << "goes on";
  } catch (const taugrid::Interrupted& stopped) {
    expect_contains(stopped.what(), "the time limit came");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(unfinished(folder_));
}

TEST_F(Results, AllRanksLearnOfOneRanksMistake) {
  ResultsWriter writer(folder_ / "r.h5", comm::Communicator(MPI_COMM_WORLD));
  writer.create("/x", Element::float64, {2}, {"n"});
  const double value = 1;
  const int last = ranks_ - 1;
  try {
    writer.write_slabs("/x", {{{rank_ == last ? 2 : 0}, {1}, &value}});
    ADD_FAILURE() << "no error";
  } catch (const std::logic_error& error) {
    expect_contains(error.what(), "exceeds the shape [2] (rank " + std::to_string(last) + ")");
  }
  EXPECT_THROW(writer.put("/y", at::ones({2}), {"n"}), std::logic_error);
  EXPECT_THROW(writer.commit(), std::logic_error);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(unfinished(folder_));
}

TEST_F(Results, TheCallersOwnExceptionLeavesNoFile) {
  // Unwinding may happen on one rank alone, so nothing collective is done then; no rank may hang,
  // neither here nor in MPI_Finalize.
  const auto stop = [&] {
    ResultsWriter writer(folder_ / "r.h5", comm::Communicator(MPI_COMM_WORLD));
    writer.put("/x", at::ones({2}), {"n"});
    throw std::runtime_error("stop");
  };
  EXPECT_THROW(stop(), std::runtime_error);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r.h5"));
  EXPECT_FALSE(unfinished(folder_));
}

TEST_F(Results, DifferentCallsAreFoundOut) {
  if (ranks_ == 1) {
    GTEST_SKIP();
  }
  ResultsWriter writer(folder_ / "r.h5", comm::Communicator(MPI_COMM_WORLD));
  EXPECT_THROW(writer.create(rank_ == 0 ? "/x" : "/y", Element::float64, {2}, {"n"}), std::logic_error);
  ResultsWriter other(folder_ / "s.h5", comm::Communicator(MPI_COMM_WORLD));
  EXPECT_THROW(other.put("/x", at::ones({rank_ == 0 ? 2 : 3}), {"n"}), std::logic_error);
}

TEST_F(Results, WrongCallsAreRefused) {
  const auto refused = [&](const std::function<void(ResultsWriter&)>& call) {
    ResultsWriter writer(folder_ / "r.h5", comm::Communicator(MPI_COMM_WORLD));
    writer.create("/x", Element::float64, {2, 3}, {"n", "m"});
    EXPECT_THROW(call(writer), std::logic_error);
  };
  refused([](auto& w) { w.create("/x", Element::float64, {2}, {"n"}); });
  refused([](auto& w) { w.create("y", Element::float64, {2}, {"n"}); });
  refused([](auto& w) { w.create("/y", Element::float64, {2}, {}); });
  refused([](auto& w) { w.create("/y", Element::float64, {2}, {"/no/scale"}); });
  refused([](auto& w) { w.write_slabs("/z", {}); });
  refused([](auto& w) { w.write_slabs("/x", {{{0, 0}, {1, 3}, nullptr}}); });
  refused([](auto& w) { w.write_slabs("/x", {{{0}, {1}, &w}}); });
  refused([](auto& w) { w.put("/y", at::zeros({1}, at::kComplexFloat), {"n"}); });
}

TEST_F(Results, AnUnwritableFolderIsAnInputErrorOnAllRanks) {
  expect_contains(
      message_of([&] { ResultsWriter(folder_ / "no" / "r.h5", comm::Communicator(MPI_COMM_WORLD)); }),
      "No such file or directory");
}

TEST_F(Results, AFullDiskIsAnInputErrorOnAllRanks) {
  const auto full = folder_ / "full";
  int mounted = 0;
  if (rank_ == 0) {
    std::filesystem::create_directories(full);
    mounted = ::mount("none", full.c_str(), "tmpfs", 0, "size=512k") == 0 ? 1 : 0;
  }
  MPI_Bcast(&mounted, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (mounted == 0) {
    GTEST_SKIP() << "a small file system needs the right to mount";
  }
  {
    ResultsWriter writer(full / "r.h5", comm::Communicator(MPI_COMM_WORLD));
    writer.put("/small", at::ones({8}), {"n"});
    expect_contains(message_of([&] { writer.put("/large", at::ones({1 << 18}), {"m"}); }),
                    "r.h5: No space left on device; free space");
    MPI_Barrier(MPI_COMM_WORLD);  // rank 0 removes the file, which the others do not wait for
    EXPECT_FALSE(unfinished(full));
  }
  {
    // Many small things fill it too.
    ResultsWriter writer(full / "s.h5", comm::Communicator(MPI_COMM_WORLD));
    const auto fill = [&] {
      for (int i = 0; i < 1000; ++i) {
        writer.attribute("/g" + std::to_string(i), "text", std::string(1000, 'x'));
      }
    };
    expect_contains(message_of(fill), "No space left on device");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) {
    EXPECT_EQ(::umount(full.c_str()), 0);
  }
}

}  // namespace
