// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/communicator.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "suite/comm/operation.hpp"

namespace taugrid::comm {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(fmt::format("{}: {}", call, text.data()));
}

void wait_patiently(MPI_Request& request, std::string_view call) {
  using namespace std::chrono_literals;
  auto pause = 20us;
  for (int done = 0; true; pause = std::min<std::chrono::microseconds>(pause * 2, 1ms)) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    if (done != 0) {
      return;
    }
    std::this_thread::sleep_for(pause);
  }
}

namespace {

class MpiTransport : public Transport {
 public:
  MpiTransport(MPI_Comm comm, std::int64_t chunk_bytes) : comm_(comm), chunk_(chunk_bytes) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }

  void broadcast(at::Tensor& tensor, int root) override {
    auto* bytes = static_cast<char*>(tensor.data_ptr());
    broadcast(bytes, static_cast<std::int64_t>(tensor.nbytes()), root);
  }

  void all_gather(const at::Tensor& mine, at::Tensor& all) override {
    const auto bytes = static_cast<std::int64_t>(mine.nbytes());
    auto* out = static_cast<char*>(all.data_ptr());
    if (bytes <= chunk_) {
      const auto count = static_cast<int>(bytes);
      check_mpi(MPI_Allgather(mine.data_ptr(), count, MPI_BYTE, out, count, MPI_BYTE, comm_),
                "MPI_Allgather");
      return;
    }
    std::memcpy(out + rank_ * bytes, mine.data_ptr(), mine.nbytes());
    for (int root = 0; root < size_; ++root) {
      broadcast(out + root * bytes, bytes, root);
    }
  }

  void all_reduce_sum(at::Tensor& tensor) override {
    switch (tensor.scalar_type()) {
      case at::kFloat:
        return sum<float>(tensor);
      case at::kDouble:
        return sum<double>(tensor);
      case at::kInt:
        return sum<std::int32_t>(tensor);
      case at::kLong:
        return sum<std::int64_t>(tensor);
      default:
        throw std::invalid_argument(
            fmt::format("all-reduce: no sum of type {}", c10::toString(tensor.scalar_type())));
    }
  }

 private:
  void broadcast(char* bytes, std::int64_t count, int root) {
    for (std::int64_t at = 0; at < count; at += chunk_) {
      const auto now = static_cast<int>(std::min(chunk_, count - at));
      check_mpi(MPI_Bcast(bytes + at, now, MPI_BYTE, root, comm_), "MPI_Bcast");
    }
  }

  // Each rank sums one slice of a chunk, in rank order, and shares it. MPI_Allreduce moves as many bytes but
  // may choose the order of addition, and with it the last bits, by message size, library version and
  // network.
  template <class T>
  void sum(at::Tensor& tensor) {
    const auto total = tensor.numel();
    const auto step = std::max<std::int64_t>(1, chunk_ / static_cast<std::int64_t>(sizeof(T)));
    auto* data = tensor.data_ptr<T>();
    std::vector<int> counts(size_), offsets(size_), in_counts(size_), in_offsets(size_);
    std::vector<T> inbox, mine;
    for (std::int64_t at = 0; at < total; at += step) {
      const auto now = std::min(step, total - at);
      const auto slice = (now + size_ - 1) / size_;
      for (int r = 0; r < size_; ++r) {
        const auto start = std::min<std::int64_t>(now, r * slice);
        offsets[r] = static_cast<int>(start * sizeof(T));
        counts[r] = static_cast<int>((std::min<std::int64_t>(now, start + slice) - start) * sizeof(T));
      }
      const auto own = counts[rank_] / sizeof(T);
      for (int r = 0; r < size_; ++r) {
        in_counts[r] = counts[rank_];
        in_offsets[r] = r * counts[rank_];
      }
      inbox.resize(own * size_);
      check_mpi(MPI_Alltoallv(data + at, counts.data(), offsets.data(), MPI_BYTE, inbox.data(),
                              in_counts.data(), in_offsets.data(), MPI_BYTE, comm_),
                "MPI_Alltoallv");
      mine.assign(inbox.begin(), inbox.begin() + static_cast<std::ptrdiff_t>(own));
      for (int r = 1; r < size_; ++r) {
        const T* other = inbox.data() + own * r;
        for (std::size_t i = 0; i < own; ++i) {
          mine[i] += other[i];
        }
      }
      check_mpi(MPI_Allgatherv(mine.data(), counts[rank_], MPI_BYTE, data + at, counts.data(), offsets.data(),
                               MPI_BYTE, comm_),
                "MPI_Allgatherv");
    }
  }

  MPI_Comm comm_;
  std::int64_t chunk_;
  int rank_ = 0;
  int size_ = 1;
};

void require_contiguous(const at::Tensor& tensor, std::string_view what) {
  if (!tensor.is_contiguous()) {
    throw std::invalid_argument(fmt::format("{}: the tensor is not contiguous", what));
  }
}

// MPI sees host memory alone: tensors of a device travel through a copy.
template <class Operation>
void on_host(at::Tensor& tensor, const Operation& operation) {
  if (tensor.is_cpu()) {
    operation(tensor);
    return;
  }
  auto copy = tensor.cpu();
  operation(copy);
  tensor.copy_(copy);
}

}  // namespace

Communicator::Communicator(MPI_Comm parent, std::int64_t chunk_bytes)
    : Communicator(
          Adopt{},
          [parent] {
            MPI_Comm copy = MPI_COMM_NULL;
            check_mpi(MPI_Comm_dup(parent, &copy), "MPI_Comm_dup");
            return copy;
          }(),
          chunk_bytes) {}

Communicator::Communicator(Adopt, MPI_Comm owned, std::int64_t chunk_bytes)
    : comm_(owned), chunk_bytes_(std::clamp<std::int64_t>(chunk_bytes, 1, std::int64_t{1} << 30)) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  MPI_Comm_rank(host, &local_rank_);
  MPI_Comm_free(&host);
  transport_ = std::make_unique<MpiTransport>(comm_, chunk_bytes_);
}

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
      rank_(other.rank_),
      size_(other.size_),
      local_rank_(other.local_rank_),
      chunk_bytes_(other.chunk_bytes_),
      transport_(std::move(other.transport_)) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    release();
    comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
    rank_ = other.rank_;
    size_ = other.size_;
    local_rank_ = other.local_rank_;
    chunk_bytes_ = other.chunk_bytes_;
    transport_ = std::move(other.transport_);
  }
  return *this;
}

Communicator::~Communicator() { release(); }

void Communicator::release() noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // MPI_Comm_free is collective: while one rank unwinds from an exception the others may never call it.
  if (comm_ != MPI_COMM_NULL && finalized == 0 && std::uncaught_exceptions() == 0) {
    MPI_Comm_free(&comm_);
  }
  comm_ = MPI_COMM_NULL;
}

void Communicator::barrier(std::string_view what) const {
  const Doing doing(what);
  check_mpi(MPI_Barrier(comm_), "MPI_Barrier");
}

void Communicator::patient_barrier(std::string_view what) const {
  const Doing doing(what);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
  wait_patiently(request, "MPI_Ibarrier");
}

void Communicator::broadcast(at::Tensor& tensor, int root, std::string_view what) const {
  const Doing doing(what);
  require_contiguous(tensor, what);
  on_host(tensor, [&](at::Tensor& host) { transport_->broadcast(host, root); });
}

void Communicator::broadcast(std::string& text, int root, std::string_view what) const {
  const Doing doing(what);
  auto length = static_cast<std::uint64_t>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_UINT64_T, root, comm_), "MPI_Bcast");
  text.resize(length);
  if (length > 0) {
    auto bytes = at::from_blob(text.data(), {static_cast<std::int64_t>(length)}, at::kByte);
    transport_->broadcast(bytes, root);
  }
}

std::int64_t Communicator::patient_broadcast(std::int64_t value, int root, std::string_view what) const {
  const Doing doing(what);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibcast(&value, 1, MPI_INT64_T, root, comm_, &request), "MPI_Ibcast");
  wait_patiently(request, "MPI_Ibcast");
  return value;
}

void Communicator::all_reduce_sum(at::Tensor& tensor, std::string_view what) const {
  const Doing doing(what);
  require_contiguous(tensor, what);
  on_host(tensor, [&](at::Tensor& host) { transport_->all_reduce_sum(host); });
}

at::Tensor Communicator::all_gather(const at::Tensor& mine, std::string_view what) const {
  const Doing doing(what);
  require_contiguous(mine, what);
  if (mine.dim() == 0) {
    throw std::invalid_argument(fmt::format("{}: a scalar has no rows to gather", what));
  }
  auto shape = mine.sizes().vec();
  shape[0] *= size_;
  const auto host = mine.cpu();
  auto all = at::empty(shape, host.options());
  transport_->all_gather(host, all);
  return all.to(mine.device());
}

bool Communicator::agree(bool ok, std::string_view what) const {
  const Doing doing(what);
  int all = ok ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce");
  return all != 0;
}

Communicator Communicator::split(int color, int key, std::string_view what) const {
  const Doing doing(what);
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  return Communicator(Adopt{}, part, chunk_bytes_);
}

}  // namespace taugrid::comm
