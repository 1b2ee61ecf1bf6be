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

#include "suite/comm/detail/background.hpp"
#include "suite/comm/detail/collective.hpp"
#include "suite/comm/detail/device.hpp"
#include "suite/comm/detail/transport.hpp"
#include "suite/comm/device.hpp"
#include "suite/comm/nccl.hpp"

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

using detail::Collective;

namespace {

void require_contiguous(const at::Tensor& tensor, std::string_view what) {
  if (!tensor.is_contiguous()) {
    throw std::invalid_argument(fmt::format("{}: the tensor is not contiguous", what));
  }
}

// No two groups of one run have the same: a rank's number, and how many groups began with it.
std::uint64_t new_group(MPI_Comm comm) {
  static std::uint64_t groups = 0;
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  auto id = ((static_cast<std::uint64_t>(world_rank) + 1) << 32) + ++groups;
  check_mpi(MPI_Bcast(&id, 1, MPI_UINT64_T, 0, comm), "MPI_Bcast");
  return id;
}

std::vector<int> world_ranks(MPI_Comm comm, int size) {
  std::vector<int> mine(size), all(size);
  std::iota(mine.begin(), mine.end(), 0);
  MPI_Group group = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
  MPI_Comm_group(comm, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_translate_ranks(group, size, mine.data(), world, all.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return all;
}

// NCCL refuses groups where two ranks share a device.
bool each_its_own(MPI_Comm comm, const detail::DeviceLink& link) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  std::array<char, 64> mine{};
  link.identity.copy(mine.data(), mine.size() - 1);
  std::vector<std::array<char, 64>> all(size);
  check_mpi(MPI_Allgather(mine.data(), sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm),
            "MPI_Allgather");
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

bool on_all(MPI_Comm comm, bool mine) {
  int all = mine ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  return all != 0;
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
  group_ = std::make_shared<detail::Group>();
  group_->id = new_group(comm_);
  group_->ranks = world_ranks(comm_, size_);
  host_ = detail::make_mpi_transport(comm_, chunk_bytes_);
}

Communicator::Communicator(Communicator&& other) noexcept { *this = std::move(other); }

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    release();
    comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
    rank_ = other.rank_;
    size_ = other.size_;
    local_rank_ = other.local_rank_;
    chunk_bytes_ = other.chunk_bytes_;
    group_ = std::move(other.group_);
    link_ = std::move(other.link_);
    host_ = std::move(other.host_);
    device_ = std::move(other.device_);
    device_tried_ = other.device_tried_;
    exchanged_ = other.exchanged_;
    background_ = std::move(other.background_);
  }
  return *this;
}

Communicator::~Communicator() { release(); }

void Communicator::release() noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // What ends a group is collective, and a thread may hang in it: while one rank unwinds from an exception
  // the others may never come. The process ends soon, then.
  if (std::uncaught_exceptions() > 0) {
    static_cast<void>(background_.release());
    static_cast<void>(device_.release());
  } else {
    background_.reset();
    device_.reset();
    if (comm_ != MPI_COMM_NULL && finalized == 0) {
      MPI_Comm_free(&comm_);
    }
  }
  comm_ = MPI_COMM_NULL;
}

void Communicator::barrier(std::string_view what) const {
  const Collective collective(group_, what);
  check_mpi(MPI_Barrier(comm_), "MPI_Barrier");
}

void Communicator::patient_barrier(std::string_view what) const {
  const Waiting waiting(what);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
  wait_patiently(request, "MPI_Ibarrier");
}

// What takes the tensor as it is; nullptr: none, it travels through a copy on the host.
detail::Transport* Communicator::device_transport(const at::Tensor& tensor) const {
  if (tensor.is_cpu()) {
    return host_.get();
  }
  if (!device_tried_) {
    device_tried_ = true;
    const bool here = link_ != nullptr && link_->device == tensor.device();
    const bool linked = on_all(comm_, here);
    if (linked && on_all(comm_, nccl_problem().empty()) && each_its_own(comm_, *link_)) {
      device_ = detail::make_nccl_transport(comm_, *link_);
    } else if (linked && on_all(comm_, link_->mpi_takes_device_memory)) {
      device_ = detail::make_mpi_transport(comm_, chunk_bytes_);
    }
  }
  return device_.get();
}

// Returns what was moved: the tensor, or its copy on the host.
template <class Operation>
at::Tensor Communicator::move(const at::Tensor& tensor, std::string_view what,
                              const Operation& operation) const {
  require_contiguous(tensor, what);
  Collective collective(group_, what);
  auto* transport = device_transport(tensor);
  auto moved = transport != nullptr ? tensor : tensor.cpu();
  operation(transport != nullptr ? *transport : *host_, moved);
  if (!moved.is_cpu()) {
    collective.goes_on(detail::mark_on_device(moved.device()));
  }
  return moved;
}

void Communicator::broadcast(at::Tensor& tensor, int root, std::string_view what) const {
  const auto moved = move(tensor, what, [&](detail::Transport& by, at::Tensor& t) { by.broadcast(t, root); });
  if (!moved.is_same(tensor)) tensor.copy_(moved);
}

void Communicator::broadcast(std::string& text, int root, std::string_view what) const {
  const Collective collective(group_, what);
  auto length = static_cast<std::uint64_t>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_UINT64_T, root, comm_), "MPI_Bcast");
  text.resize(length);
  if (length > 0) {
    auto bytes = at::from_blob(text.data(), {static_cast<std::int64_t>(length)}, at::kByte);
    host_->broadcast(bytes, root);
  }
}

std::int64_t Communicator::patient_broadcast(std::int64_t value, int root, std::string_view what) const {
  const Waiting waiting(what);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibcast(&value, 1, MPI_INT64_T, root, comm_, &request), "MPI_Ibcast");
  wait_patiently(request, "MPI_Ibcast");
  return value;
}

void Communicator::all_reduce_sum(at::Tensor& tensor, std::string_view what) const {
  count_exchanged(tensor);
  const auto moved = move(tensor, what, [](detail::Transport& by, at::Tensor& t) { by.all_reduce_sum(t); });
  if (!moved.is_same(tensor)) tensor.copy_(moved);
}

Reduction Communicator::begin_all_reduce_sum(const at::Tensor& tensor, std::string_view what) const {
  require_contiguous(tensor, what);
  auto whole = tensor;
  if (!tensor.is_cpu()) {
    detail::Transport* transport = nullptr;
    {
      const Collective collective(group_, what);
      transport = device_transport(tensor);
    }
    if (transport == nullptr) {
      all_reduce_sum(whole, what);
      return Reduction([] {});
    }
    count_exchanged(tensor);
    auto entry = std::make_shared<detail::Entry>(group_, what);
    const auto under_way = beside(tensor.device(), [&] { transport->all_reduce_sum(whole); });
    return Reduction([entry, under_way, whole] {
      entry->goes_on(under_way.finished);
      under_way.wait();
    });
  }
  count_exchanged(tensor);
  if (!background_) {
    MPI_Comm duplicate = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(comm_, &duplicate), "MPI_Comm_dup");
    background_ = std::make_unique<detail::Background>(duplicate, chunk_bytes_);
  }
  auto& transport = background_->transport();
  auto entry = std::make_shared<detail::Entry>(group_, what);
  auto times = std::make_shared<Reduction::Times>();
  auto done = std::make_shared<std::future<void>>(
      background_->start(std::packaged_task<void()>([whole, entry, &transport, times]() mutable {
        times->begun = steady_seconds();
        transport.all_reduce_sum(whole);
        times->ended = steady_seconds();
        entry.reset();
      })));
  return Reduction(
      [done, text = std::string(what)] {
        const Waiting waiting(text);
        done->get();
      },
      times);
}

at::Tensor Communicator::all_gather(const at::Tensor& mine, std::string_view what) const {
  if (mine.dim() == 0) {
    throw std::invalid_argument(fmt::format("{}: a scalar has no rows to gather", what));
  }
  count_exchanged(mine, size_);
  auto shape = mine.sizes().vec();
  shape[0] *= size_;
  at::Tensor all;
  move(mine, what, [&](detail::Transport& by, at::Tensor& t) {
    all = at::empty(shape, t.options());
    by.all_gather(t, all);
  });
  return all.to(mine.device());
}

bool Communicator::agree(bool ok, std::string_view what) const {
  const Collective collective(group_, what);
  return on_all(comm_, ok);
}

Communicator::Foreign::Foreign(const Communicator& comm, std::string_view what)
    : entry_(std::make_unique<Collective>(comm.group_, what)) {}
Communicator::Foreign::~Foreign() = default;

Communicator Communicator::among(const std::vector<int>& ranks, int tag, std::string_view what) const {
  const Waiting waiting(what);
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm_, &all), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), "MPI_Group_incl");
  MPI_Comm part = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(comm_, some, tag, &part);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  check_mpi(code, "MPI_Comm_create_group");
  Communicator group(Adopt{}, part, chunk_bytes_);
  group.link_ = link_;
  return group;
}

Communicator Communicator::split(int color, int key, std::string_view what) const {
  const Collective collective(group_, what);
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, color, key, &part), "MPI_Comm_split");
  Communicator group(Adopt{}, part, chunk_bytes_);
  group.link_ = link_;
  return group;
}

}  // namespace taugrid::comm
