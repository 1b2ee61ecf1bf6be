// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The network as runs use it, by size: sums and gathers over their communicator (NCCL on GPUs, else MPI), and
// messages of the host's memory between the first and the last rank, as units are dealt. Two ranks or more;
// how many each host has is the launcher's matter. A gather is left out where a rank has no whole number to
// give.
#include <ATen/ATen.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"

namespace taugrid::bench {
namespace {

constexpr std::array<std::int64_t, 4> sizes = {8, 4096, std::int64_t{256} << 10,
                                               std::int64_t{16} << 20};  // bytes
constexpr std::int64_t bytes_a_run = std::int64_t{64} << 20;  // at least one call, at most most_calls
constexpr std::int64_t most_calls = 1000;

std::int64_t calls_of(std::int64_t bytes) {
  return std::clamp<std::int64_t>(bytes_a_run / bytes, 1, most_calls);
}

/// "8B", "4KiB"
std::string name_of(std::int64_t bytes) {
  constexpr std::int64_t kibi = 1024;
  if (bytes < kibi) return fmt::format("{}B", bytes);
  return bytes < kibi * kibi ? fmt::format("{}KiB", bytes / kibi) : fmt::format("{}MiB", bytes / kibi / kibi);
}

/// What all cases say: `bytes` of a call, as nccl-tests counts them, and its factor from algorithm to bus
/// bandwidth.
Work calls(std::int64_t bytes, double bus) {
  Work work;
  const auto count = static_cast<double>(calls_of(bytes));
  work.bytes = count * static_cast<double>(bytes);
  work.items = count;
  work.unit = "calls";
  work.transfer = {static_cast<double>(bytes), bus};
  work.tolerance = 0;
  return work;
}

/// A rank's numbers are so many times the first's.
int factor_of(int rank) { return rank % 3 + 1; }

/// float32 [bytes/4], each rank's. Timed is a sum of zeros, which may be summed again; a last one has
/// small whole numbers, whose sums float32 holds exactly for up to a million ranks: they stay below 2²⁴.
Work all_reduce(const Fixture& x, std::int64_t bytes) {
  const auto n = bytes / 4;
  const double ranks = x.world().size();
  double factors = 0;
  for (int rank = 0; rank < x.world().size(); ++rank) factors += factor_of(rank);
  const auto tensor = std::make_shared<at::Tensor>(
      at::zeros({n}, at::TensorOptions(at::kFloat).device(x.runtime().device())));
  auto work = calls(bytes, 2 * (ranks - 1) / ranks);
  work.run = [tensor, bytes, &x] {
    for (auto left = calls_of(bytes); left > 0; --left)
      x.world().all_reduce_sum(*tensor, "the bench's all-reduce");
  };
  work.error = [tensor, n, factors, &x] {
    const auto place = at::arange(n, tensor->options()).remainder(7);
    auto sum = place * factor_of(x.world().rank());
    x.world().all_reduce_sum(sum, "the bench's all-reduce");
    const auto wrong = (sum - place * factors).abs().max() + tensor->abs().max();
    return x.worst(wrong.item<double>());
  };
  return work;
}

/// `bytes`, at least a number of each rank, are what a rank has in the end, a share of it from each.
Work all_gather(const Fixture& x, std::int64_t bytes) {
  const auto ranks = x.world().size();
  const auto n = bytes / 4 / ranks, all = 4 * n * ranks;
  const auto share =
      at::arange(n, at::TensorOptions(at::kInt).device(x.runtime().device())) * ranks + x.world().rank();
  const auto gathered = std::make_shared<at::Tensor>();
  auto work = calls(all, (ranks - 1.0) / ranks);
  work.run = [share, gathered, all, &x] {
    for (auto left = calls_of(all); left > 0; --left)
      *gathered = x.world().all_gather(share, "the bench's all-gather");
  };
  work.error = [gathered, n, ranks, &x] {
    const auto expected = at::arange(n * ranks, at::kInt).view({n, ranks}).t().reshape({-1});
    return x.worst(at::equal(gathered->cpu(), expected) ? 0 : 1);
  };
  return work;
}

/// There and back between the first and the last rank; a call is one way.
Work point_to_point(const Fixture& x, std::int64_t bytes) {
  const auto last = x.world().size() - 1, me = x.world().rank();
  const auto message =
      std::make_shared<std::vector<char>>(static_cast<std::size_t>(bytes), me == 0 ? 'm' : ' ');
  auto work = calls(bytes, 1);
  work.items *= 2;
  work.bytes *= 2;
  work.run = [message, bytes, last, me, &x] {
    const comm::Communicator::Foreign mark(x.world(), "the bench's messages");
    if (me != 0 && me != last) return;
    const int length = static_cast<int>(bytes), other = me == 0 ? last : 0;
    const auto send = [&] {
      comm::check_mpi(MPI_Send(message->data(), length, MPI_CHAR, other, 0, x.world().mpi()), "MPI_Send");
    };
    const auto receive = [&] {
      comm::check_mpi(
          MPI_Recv(message->data(), length, MPI_CHAR, other, 0, x.world().mpi(), MPI_STATUS_IGNORE),
          "MPI_Recv");
    };
    for (auto left = calls_of(bytes); left > 0; --left) {
      if (me == 0) send();
      receive();
      if (me != 0) send();
    }
  };
  work.error = [message, last, me, &x] {
    const bool right =
        std::all_of(message->begin(), message->end(), [](char letter) { return letter == 'm'; });
    return x.worst(right || (me != 0 && me != last) ? 0 : 1);
  };
  return work;
}

}  // namespace

std::vector<Case> network_cases(const Fixture& x) {
  std::vector<Case> cases;
  if (x.world().size() == 1) return cases;
  for (const auto bytes : sizes) {
    const auto name = name_of(bytes);
    cases.push_back(
        {"network/all_reduce_" + name, [&x, bytes] { return all_reduce(x, bytes); }, false, true});
    if (bytes >= 4 * std::int64_t{x.world().size()}) {
      cases.push_back(
          {"network/all_gather_" + name, [&x, bytes] { return all_gather(x, bytes); }, false, true});
    }
    cases.push_back(
        {"network/point_to_point_" + name, [&x, bytes] { return point_to_point(x, bytes); }, false, true});
  }
  return cases;
}

}  // namespace taugrid::bench
