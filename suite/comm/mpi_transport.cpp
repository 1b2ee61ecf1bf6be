// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/comm/detail/transport.hpp"
#include "suite/comm/device.hpp"

namespace taugrid::comm::detail {

std::invalid_argument no_sum_of(const at::Tensor& tensor) {
  return std::invalid_argument(
      fmt::format("all-reduce: no sum of type {}", c10::toString(tensor.scalar_type())));
}

namespace {

void require_summable(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kInt:
    case at::kLong:
      return;
    default:
      throw no_sum_of(tensor);
  }
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, std::int64_t chunk_bytes, bool patient)
      : comm_(comm), chunk_(chunk_bytes), patient_(patient) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }

  void broadcast(at::Tensor& tensor, int root) override {
    wait_for_device(tensor.device());
    broadcast(static_cast<char*>(tensor.data_ptr()), static_cast<std::int64_t>(tensor.nbytes()), root);
  }

  void all_gather(const at::Tensor& mine, at::Tensor& all) override {
    const auto bytes = static_cast<std::int64_t>(mine.nbytes());
    auto* out = static_cast<char*>(all.data_ptr());
    if (bytes <= chunk_) {
      wait_for_device(mine.device());
      const auto count = static_cast<int>(bytes);
      check_mpi(MPI_Allgather(mine.data_ptr(), count, MPI_BYTE, out, count, MPI_BYTE, comm_),
                "MPI_Allgather");
      return;
    }
    all.view({size_, -1}).select(0, rank_).copy_(mine.view({-1}));
    wait_for_device(mine.device());
    for (int root = 0; root < size_; ++root) broadcast(out + root * bytes, bytes, root);
  }

  // Each rank sums one slice of a chunk and shares it. MPI_Allreduce moves as many bytes but may choose the
  // order of addition, and with it the last bits, by message size, library version and network.
  void all_reduce_sum(at::Tensor& tensor) override {
    require_summable(tensor);
    const at::NoGradGuard no_grad;
    auto flat = tensor.view({-1});
    const auto element = static_cast<std::int64_t>(tensor.element_size());
    const auto step = std::max<std::int64_t>(1, chunk_ / element);
    std::vector<int> counts(size_), offsets(size_), in_counts(size_), in_offsets(size_);
    for (std::int64_t at = 0; at < flat.numel(); at += step) {
      const auto now = std::min(step, flat.numel() - at), slice = rows_a_rank(now, size_);
      for (int r = 0; r < size_; ++r) {
        const auto start = std::min(now, r * slice);
        offsets[r] = static_cast<int>(start * element);
        counts[r] = static_cast<int>((std::min(now, start + slice) - start) * element);
      }
      for (int r = 0; r < size_; ++r) {
        in_counts[r] = counts[rank_];
        in_offsets[r] = r * counts[rank_];
      }
      auto* data = static_cast<char*>(flat.data_ptr()) + at * element;
      auto inbox = at::empty({size_, counts[rank_] / element}, flat.options());
      wait_for_device(flat.device());
      if (patient_) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Ialltoallv(data, counts.data(), offsets.data(), MPI_BYTE, inbox.data_ptr(),
                                 in_counts.data(), in_offsets.data(), MPI_BYTE, comm_, &request),
                  "MPI_Ialltoallv");
        wait_patiently(request, "MPI_Ialltoallv");
      } else {
        check_mpi(MPI_Alltoallv(data, counts.data(), offsets.data(), MPI_BYTE, inbox.data_ptr(),
                                in_counts.data(), in_offsets.data(), MPI_BYTE, comm_),
                  "MPI_Alltoallv");
      }
      const auto mine = sum_in_order(inbox);
      wait_for_device(flat.device());
      if (patient_) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Iallgatherv(mine.data_ptr(), counts[rank_], MPI_BYTE, data, counts.data(),
                                  offsets.data(), MPI_BYTE, comm_, &request),
                  "MPI_Iallgatherv");
        wait_patiently(request, "MPI_Iallgatherv");
      } else {
        check_mpi(MPI_Allgatherv(mine.data_ptr(), counts[rank_], MPI_BYTE, data, counts.data(),
                                 offsets.data(), MPI_BYTE, comm_),
                  "MPI_Allgatherv");
      }
    }
  }

 private:
  void broadcast(char* bytes, std::int64_t count, int root) {
    for (std::int64_t at = 0; at < count; at += chunk_) {
      const auto now = static_cast<int>(std::min(chunk_, count - at));
      check_mpi(MPI_Bcast(bytes + at, now, MPI_BYTE, root, comm_), "MPI_Bcast");
    }
  }

  /// [ranks, n] → [n]
  at::Tensor sum_in_order(const at::Tensor& inbox) const {
    auto sum = inbox.select(0, 0);
    for (int r = 1; r < size_; ++r) sum.add_(inbox.select(0, r));
    return sum;
  }

  MPI_Comm comm_;
  std::int64_t chunk_;
  bool patient_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, std::int64_t chunk_bytes, bool patient) {
  return std::make_unique<MpiTransport>(comm, chunk_bytes, patient);
}

}  // namespace taugrid::comm::detail
