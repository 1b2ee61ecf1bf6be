// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Groups of ranks and the collectives that taugrid needs, over a transport.
#pragma once

#include <ATen/core/Tensor.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/range.hpp"

namespace taugrid::comm {

/// Throws std::runtime_error naming `call` with MPI's own text unless `code` is MPI_SUCCESS.
void check_mpi(int code, std::string_view call);

/// Completes `request`, and sleeps between looks (20 µs, growing to 1 ms): a rank that waits for minutes
/// leaves its core to those that work. Throws as check_mpi does.
void wait_patiently(MPI_Request& request, std::string_view call);

namespace detail {
class Transport;
struct DeviceLink;
struct Group;
class Background;
class Collective;
}  // namespace detail

/// A sum that is under way.
class Reduction {
 public:
  /// Seconds on the steady clock; NaN where a device keeps the time.
  struct Times {
    double begun = std::numeric_limits<double>::quiet_NaN(), ended = begun;
  };
  explicit Reduction(std::function<void()> wait,
                     std::shared_ptr<const Times> times = std::make_shared<Times>())
      : wait_(std::move(wait)), times_(std::move(times)) {}
  /// Returns when the tensor holds the sum; on a device, when work asked for from now on will find it there.
  /// Throws what the operation threw. Once.
  void wait() { std::exchange(wait_, nullptr)(); }
  /// The time in which the sum ran; to be asked after wait().
  Times times() const { return *times_; }

 private:
  std::function<void()> wait_;
  std::shared_ptr<const Times> times_;
};

/// Rows that a rank gets at most where `ranks` share out n.
inline std::int64_t rows_a_rank(std::int64_t n, int ranks) { return (n + ranks - 1) / ranks; }

/// A group of ranks. Every collective takes `what`, the operation's name in failure messages, and throws
/// std::invalid_argument for a tensor that is not contiguous, std::runtime_error where MPI or NCCL fails.
/// Tensors of this rank's device go by NCCL, on the stream that computes, where the process has it and each
/// rank of the group a device of its own; else through MPI. Tensors of the host go by MPI.
class Communicator {
 public:
  /// Messages are cut into chunks of this many bytes: MPI counts are ints.
  static constexpr std::int64_t default_chunk_bytes = std::int64_t{1} << 26;

  /// Collective over `parent`, which is duplicated and stays the caller's: messages of this object can then
  /// never match those of another library, and its error handler is its own.
  explicit Communicator(MPI_Comm parent, std::int64_t chunk_bytes = default_chunk_bytes);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// This rank's number among those of the group that share its host.
  int local_rank() const { return local_rank_; }
  /// This rank's share of n rows, in rank order: the last ranks may get fewer, or none.
  Range share_of(std::int64_t n) const {
    const auto most = rows_a_rank(n, size_), begin = std::min(n, most * rank_);
    return {begin, std::min(n, begin + most) - begin};
  }

  void barrier(std::string_view what) const;
  /// A barrier that sleeps instead of spinning, for waits of seconds to hours.
  void patient_barrier(std::string_view what) const;
  /// Fills `tensor` on every rank with root's.
  void broadcast(at::Tensor& tensor, int root, std::string_view what) const;
  /// Fills `text` on every rank with root's; sizes may differ before.
  void broadcast(std::string& text, int root, std::string_view what) const;
  /// Broadcasts one number; the waiting ranks sleep instead of spinning.
  std::int64_t patient_broadcast(std::int64_t value, int root, std::string_view what) const;
  /// Replaces `tensor` (float32, float64, int32 or int64) by its sum over the ranks, added in rank order:
  /// bitwise the same on every rank, on any network and in every run (by NCCL: in its order).
  void all_reduce_sum(at::Tensor& tensor, std::string_view what) const;
  /// Sums as all_reduce_sum does, beside what this thread goes on to do; leave `tensor` alone until then.
  /// Started by all ranks in the same order, and waited for before this object ends.
  Reduction begin_all_reduce_sum(const at::Tensor& tensor, std::string_view what) const;
  /// [rows,…] of each rank, equal shapes → [size·rows,…] in rank order.
  at::Tensor all_gather(const at::Tensor& mine, std::string_view what) const;
  /// Bytes of tensors that this rank has summed or gathered with the others of the group so far, a gathered
  /// one being all ranks' parts; 0 of a group of one.
  double exchanged_bytes() const { return exchanged_; }
  /// True on every rank iff `ok` on every rank. Call it before a rank-local failure is thrown ahead of a
  /// collective.
  bool agree(bool ok, std::string_view what) const;
  /// Marks this rank, for as long as it lives, as in a collective of the group that another library makes
  /// (parallel HDF5's, say): the watchdog sees it as one of this object's own. All ranks make one.
  class Foreign {
   public:
    Foreign(const Communicator& comm, std::string_view what);
    ~Foreign();
    Foreign(const Foreign&) = delete;
    Foreign& operator=(const Foreign&) = delete;

   private:
    std::unique_ptr<detail::Collective> entry_;
  };

  /// The group of these ranks of this one, in this order. They alone call it, with the same `tag` (0 … 10⁴),
  /// which no other such call that is under way has.
  Communicator among(const std::vector<int>& ranks, int tag, std::string_view what) const;
  /// Groups of equal `color`, ordered by `key`, then rank.
  Communicator split(int color, int key, std::string_view what = "split of a communicator") const;

  /// The device whose tensors NCCL may move; handed on to groups that are split off afterwards.
  void use_device(std::shared_ptr<const detail::DeviceLink> link) { link_ = std::move(link); }

  /// MPI's own handle, for parallel HDF5 and single MPI calls. Errors are returned, not fatal: check_mpi()
  /// them.
  MPI_Comm mpi() const { return comm_; }

 private:
  struct Adopt {};
  Communicator(Adopt, MPI_Comm owned, std::int64_t chunk_bytes);
  void release() noexcept;
  detail::Transport* device_transport(const at::Tensor& tensor) const;
  void count_exchanged(const at::Tensor& tensor, int times = 1) const {
    if (size_ > 1) exchanged_ += static_cast<double>(tensor.nbytes()) * times;
  }
  template <class Operation>
  at::Tensor move(const at::Tensor& tensor, std::string_view what, const Operation& operation) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  std::int64_t chunk_bytes_ = default_chunk_bytes;
  std::shared_ptr<detail::Group> group_;
  std::shared_ptr<const detail::DeviceLink> link_;
  std::unique_ptr<detail::Transport> host_;
  mutable std::unique_ptr<detail::Transport> device_;  // made at the first collective of a device
  mutable bool device_tried_ = false;
  mutable double exchanged_ = 0;
  mutable std::unique_ptr<detail::Background> background_;
};

}  // namespace taugrid::comm
