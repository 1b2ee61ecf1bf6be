// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The NCCL transport on a rehearsal device, with a stand-in for the library; MPI is the oracle.
#include "suite/comm/nccl.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "suite/comm/communicator.hpp"
#include "suite/comm/detail/device.hpp"
#include "tests/suite/comm/nccl_stub.hpp"
#include "tests/support/rehearsal_device.hpp"

using taugrid::comm::Communicator;
using taugrid::test::rehearsal_device;
using taugrid::test::take_nccl_calls;

namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

Communicator with_device(const std::string& identity) {
  Communicator world(MPI_COMM_WORLD);
  world.use_device(std::make_shared<const taugrid::comm::detail::DeviceLink>(
      taugrid::comm::detail::DeviceLink{rehearsal_device(), identity, false}));
  return world;
}

Communicator with_own_device() { return with_device("device " + std::to_string(world_rank())); }

at::Tensor on_device(const at::Tensor& tensor) { return tensor.to(rehearsal_device()); }

at::Tensor values(int rank, std::int64_t n, at::ScalarType type = at::kDouble) {
  return (at::sin(at::arange(n, at::kDouble) * (0.7 + rank)) * 1000).round().to(type);
}

TEST(Nccl, IsFoundInTheProcess) {
  EXPECT_EQ(taugrid::comm::nccl_problem(), "");
  EXPECT_EQ(taugrid::comm::nccl_version(), "2.28.9");
}

TEST(Nccl, MovesWhatMpiMoves) {
  const auto by_nccl = with_own_device();
  const Communicator by_mpi(MPI_COMM_WORLD);
  const int rank = by_mpi.rank(), size = by_mpi.size();
  take_nccl_calls();
  for (const auto type :
       {at::kFloat, at::kDouble, at::kInt, at::kLong}) {  // whole numbers: no order of addition
    auto expected = values(rank, 24, type), sum = on_device(expected);
    by_mpi.all_reduce_sum(expected, "test");
    by_nccl.all_reduce_sum(sum, "test");
    EXPECT_TRUE(sum.cpu().equal(expected)) << type;

    const auto mine = values(rank, 6 * size, type).view({2 * size, 3});
    EXPECT_TRUE(by_nccl.all_gather(on_device(mine), "test").cpu().equal(by_mpi.all_gather(mine, "test")));
    auto sent = values(rank, 5, type), received = on_device(sent);
    by_mpi.broadcast(sent, size - 1, "test");
    by_nccl.broadcast(received, size - 1, "test");
    EXPECT_TRUE(received.cpu().equal(sent));
  }
  const auto calls = take_nccl_calls();
  const auto count = [&](const char* name) {
    return std::count_if(calls.begin(), calls.end(), [name](const auto& call) { return call.name == name; });
  };
  EXPECT_EQ(count("init"), 1);  // one group, made at its first collective
  EXPECT_EQ(count("id"), rank == 0 ? 1 : 0);
  for (const auto* name : {"all_reduce", "all_gather", "broadcast"})
    EXPECT_EQ(count(name), 4) << name;
  for (const auto& call : calls)
    EXPECT_EQ(call.stream, 0) << call.name << " is not on the stream that computes";
}

TEST(Nccl, SumsBesideOtherWorkHaveAStreamOfTheirOwn) {
  const auto by_nccl = with_own_device();
  auto expected = values(0, 40), tensor = on_device(values(by_nccl.rank(), 40));
  for (int r = 1; r < by_nccl.size(); ++r) expected += values(r, 40);
  take_nccl_calls();
  auto sum = by_nccl.begin_all_reduce_sum(tensor, "test");
  sum.wait();
  EXPECT_TRUE(tensor.cpu().equal(expected));
  const auto calls = take_nccl_calls();
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back().name, "all_reduce");
  EXPECT_NE(calls.back().stream, 0);
}

TEST(Nccl, GroupsAreTheirOwn) {
  const auto world = with_own_device();
  if (world.size() < 4) GTEST_SKIP() << "needs 4 ranks";
  const auto part = world.split(world.rank() == 3 ? 1 : 0, world.rank());
  auto sum = on_device(at::full({1}, static_cast<double>(world.rank()), at::kDouble));
  part.all_reduce_sum(sum, "test");
  EXPECT_EQ(sum.cpu().item<double>(), world.rank() == 3 ? 3 : 0 + 1 + 2);
}

TEST(Nccl, IsNotUsedWhereRanksShareADevice) {
  const auto shared = with_device("the one device");
  take_nccl_calls();
  auto sum = on_device(at::ones({3}, at::kDouble));
  shared.all_reduce_sum(sum, "test");
  EXPECT_TRUE(sum.cpu().eq(shared.size()).all().item<bool>());
  EXPECT_EQ(take_nccl_calls().empty(), shared.size() > 1);
}

TEST(Nccl, ErrorsNameTheCall) {
  const auto world = with_own_device();
  auto tensor = on_device(at::ones({3}));
  world.all_reduce_sum(tensor, "test");
  taugrid::test::fail_next_nccl_call(2);
  try {
    world.all_reduce_sum(tensor, "test");
    FAIL() << "an error of NCCL went unseen";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "ncclAllReduce: unhandled system error");
  }
  auto half = on_device(at::ones({3}).to(at::kHalf));
  EXPECT_THROW(world.all_reduce_sum(half, "test"), std::invalid_argument);
}

}  // namespace
