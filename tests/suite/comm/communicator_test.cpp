// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/communicator.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "suite/comm/detail/collective.hpp"

using taugrid::comm::Communicator;

namespace {

// What rank r holds: any rank can compute any other's.
at::Tensor values(int rank, std::int64_t n, at::ScalarType type = at::kFloat) {
  return (at::sin(at::arange(n, at::kDouble) * (0.7 + rank)) * 1000).to(type);
}

TEST(Communicator, KnowsItsPlace) {
  const Communicator world(MPI_COMM_WORLD);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT_EQ(world.rank(), rank);
  EXPECT_EQ(world.size(), size);
  EXPECT_EQ(world.local_rank(), rank);  // the tests run on one host
  EXPECT_NE(world.mpi(), MPI_COMM_WORLD);
}

TEST(Communicator, Moves) {
  Communicator a(MPI_COMM_WORLD);
  const MPI_Comm handle = a.mpi();
  Communicator b(std::move(a));
  EXPECT_EQ(b.mpi(), handle);
  EXPECT_EQ(a.mpi(), MPI_COMM_NULL);  // NOLINT: that is what is tested
  a = std::move(b);
  EXPECT_TRUE(a.agree(true, "test"));
}

TEST(Communicator, SharesOutEachRowOnceInRankOrder) {
  const Communicator world(MPI_COMM_WORLD);
  for (const std::int64_t n : {0, 1, 2, 3, 5, 8, 1001}) {
    const auto mine = world.share_of(n);
    EXPECT_LE(mine.count, taugrid::comm::rows_a_rank(n, world.size()));
    EXPECT_GE(mine.count, 0);
    const auto all = world.all_gather(at::tensor({mine.begin, mine.end()}, at::kLong).view({1, 2}), "test");
    EXPECT_EQ(all[0][0].item<std::int64_t>(), 0);
    EXPECT_EQ(all[-1][1].item<std::int64_t>(), n);
    for (int r = 1; r < world.size(); ++r)
      EXPECT_EQ(all[r][0].item<std::int64_t>(), all[r - 1][1].item<std::int64_t>());
  }
}

// Chunks of 1, 16 and 1000 bytes stand for those of 64 MiB.
class Chunks : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(Chunks, SumIsThatInRankOrderBitForBit) {
  const Communicator world(MPI_COMM_WORLD, GetParam());
  for (const auto type : {at::kFloat, at::kDouble, at::kInt, at::kLong}) {
    for (const std::int64_t n : {0, 1, 3, 257}) {
      auto sum = values(world.rank(), n, type);
      world.all_reduce_sum(sum, "test");
      auto expected = values(0, n, type);
      for (int r = 1; r < world.size(); ++r) {
        expected += values(r, n, type);
      }
      EXPECT_TRUE(at::equal(sum, expected)) << n << " of " << type;
    }
  }
}

at::Tensor sum_of_all(int size, std::int64_t n) {
  auto sum = values(0, n);
  for (int r = 1; r < size; ++r) sum += values(r, n);
  return sum;
}

TEST_P(Chunks, SumsBesideOtherWorkAreTheSame) {
  const Communicator world(MPI_COMM_WORLD, GetParam());
  std::vector<at::Tensor> tensors;
  std::vector<taugrid::comm::Reduction> under_way;
  for (int i = 0; i < 5; ++i) {
    tensors.push_back(values(world.rank(), 31 + i));
    under_way.push_back(world.begin_all_reduce_sum(tensors.back(), "test"));
    EXPECT_TRUE(world.agree(true, "another collective meanwhile"));
  }
  for (int i = 0; i < 5; ++i) {
    under_way[i].wait();
    EXPECT_TRUE(at::equal(tensors[i], sum_of_all(world.size(), 31 + i))) << i;
  }
}

TEST_P(Chunks, BroadcastFromEachRoot) {
  const Communicator world(MPI_COMM_WORLD, GetParam());
  for (int root = 0; root < world.size(); ++root) {
    for (const auto type : {at::kFloat, at::kHalf, at::kByte}) {
      auto tensor = values(world.rank(), 99, at::kDouble).abs().remainder(200).to(type);
      world.broadcast(tensor, root, "test");
      EXPECT_TRUE(at::equal(tensor, values(root, 99, at::kDouble).abs().remainder(200).to(type)));
    }
    std::string text = world.rank() == root ? "from root " + std::to_string(root) : "";
    world.broadcast(text, root, "test");
    EXPECT_EQ(text, "from root " + std::to_string(root));
    EXPECT_EQ(world.patient_broadcast(world.rank() + (1LL << 40), root, "test"), root + (1LL << 40));
  }
}

TEST_P(Chunks, GatherKeepsRankOrder) {
  const Communicator world(MPI_COMM_WORLD, GetParam());
  const auto all = world.all_gather(values(world.rank(), 60).reshape({5, 12}), "test");
  std::vector<at::Tensor> expected;
  for (int r = 0; r < world.size(); ++r) {
    expected.push_back(values(r, 60).reshape({5, 12}));
  }
  EXPECT_TRUE(at::equal(all, at::cat(expected)));
}

INSTANTIATE_TEST_SUITE_P(Bytes, Chunks, ::testing::Values(1, 16, 1000, Communicator::default_chunk_bytes));

TEST(Communicator, SumKeepsNotANumber) {
  const Communicator world(MPI_COMM_WORLD);
  auto tensor = at::zeros({4});
  tensor[1] = std::numeric_limits<float>::quiet_NaN();
  world.all_reduce_sum(tensor, "test");
  EXPECT_TRUE(at::equal(tensor.isnan(), at::tensor({0, 1, 0, 0}).to(at::kBool)));
}

TEST(Communicator, RefusesWhatItCannotMove) {
  const Communicator world(MPI_COMM_WORLD);
  auto transposed = at::zeros({3, 4}).t();
  auto half = at::zeros({3}, at::kHalf);
  EXPECT_THROW(world.all_reduce_sum(transposed, "test"), std::invalid_argument);
  EXPECT_THROW(world.all_reduce_sum(half, "test"), std::invalid_argument);
  EXPECT_THROW(world.all_gather(at::zeros({}), "test"), std::invalid_argument);
  EXPECT_THROW(world.begin_all_reduce_sum(half, "test").wait(), std::invalid_argument);
}

TEST(Communicator, SomeRanksMakeAGroupWithoutTheOthers) {
  const Communicator world(MPI_COMM_WORLD);
  const int half = (world.size() + 1) / 2;
  std::vector<int> ranks;
  for (int r = half; r-- > 0;) ranks.push_back(r);  // in an order of their own
  if (world.rank() >= half) return;
  const auto group = world.among(ranks, 7, "test");
  EXPECT_EQ(group.size(), half);
  EXPECT_EQ(group.rank(), half - 1 - world.rank());
  auto sum = at::ones({3});
  group.all_reduce_sum(sum, "test");
  EXPECT_TRUE(at::equal(sum, at::full({3}, static_cast<float>(half))));
}

TEST(Communicator, SplitsByColorAndKey) {
  const Communicator world(MPI_COMM_WORLD);
  const auto half = world.split(world.rank() % 2, -world.rank());
  EXPECT_EQ(half.size(), (world.size() + 1 - world.rank() % 2) / 2);
  auto sum = at::full({1}, static_cast<std::int64_t>(world.rank()), at::kLong);
  half.all_reduce_sum(sum, "test");
  std::int64_t expected = 0;
  int above = 0;
  for (int r = world.rank() % 2; r < world.size(); r += 2) {
    expected += r;
    above += r > world.rank() ? 1 : 0;
  }
  EXPECT_EQ(sum.item<std::int64_t>(), expected);
  EXPECT_EQ(half.rank(), above);  // keys reverse the order
}

TEST(Communicator, AgreesOnlyWhereAllDo) {
  const Communicator world(MPI_COMM_WORLD);
  EXPECT_TRUE(world.agree(true, "test"));
  EXPECT_FALSE(world.agree(world.rank() != world.size() - 1, "test"));
}

TEST(Watchdog, WatchesWhatGoesOnOnADeviceUntilItIsOver) {
  using namespace taugrid::comm::detail;
  using taugrid::comm::steady_seconds;
  const auto group = std::make_shared<Group>();
  bool over = false;
  {
    Collective collective(group, "sum on a device");
    collective.goes_on([&over] { return over; });
  }  // the host has moved on
  const auto hung = entered_before(steady_seconds() + 1);
  ASSERT_TRUE(hung);
  EXPECT_EQ(hung->what, "sum on a device");
  EXPECT_EQ(hung->number, 1U);
  EXPECT_FALSE(entered_before(steady_seconds() - 1));  // not so long ago
  over = true;
  EXPECT_FALSE(entered_before(steady_seconds() + 1));
}

TEST(Communicator, MpiErrorsNameTheCall) {
  const Communicator world(MPI_COMM_WORLD);
  try {
    int value = 0;
    taugrid::comm::check_mpi(MPI_Bcast(&value, 1, MPI_INT, world.size(), world.mpi()), "MPI_Bcast");
    FAIL() << "a root that is no rank was taken";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("MPI_Bcast: MPI_ERR_ROOT"), std::string::npos) << error.what();
  }
}

}  // namespace
