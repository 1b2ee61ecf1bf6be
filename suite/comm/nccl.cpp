// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/nccl.hpp"

#include "suite/comm/detail/transport.hpp"

#ifdef TAUGRID_HAVE_NCCL
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <optional>
#include <stdexcept>

#include "suite/comm/communicator.hpp"
#include "suite/comm/detail/device.hpp"

namespace taugrid::comm {

namespace {

// Found in the process by name, never linked: no second NCCL can come in, and a CPU run needs none.
struct Api {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetUniqueId) unique_id;
  decltype(&ncclCommInitRank) init_rank;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  std::string missing;
};

Api look_up() {
  Api api{};
  const auto find = [&api](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
    if (function == nullptr && api.missing.empty()) api.missing = name;
  };
  find(api.get_version, "ncclGetVersion");
  find(api.error_string, "ncclGetErrorString");
  find(api.unique_id, "ncclGetUniqueId");
  find(api.init_rank, "ncclCommInitRank");
  find(api.destroy, "ncclCommDestroy");
  find(api.broadcast, "ncclBroadcast");
  find(api.all_reduce, "ncclAllReduce");
  find(api.all_gather, "ncclAllGather");
  return api;
}

// Not kept until all of it is there: LibTorch's CUDA part may be loaded later.
const Api* api() {
  static std::optional<Api> loaded;
  if (!loaded) {
    auto now = look_up();
    if (!now.missing.empty()) return nullptr;
    loaded = now;
  }
  return &*loaded;
}

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error(fmt::format("{}: {}", call, api()->error_string(result)));
}

ncclDataType_t sum_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    default:
      throw detail::no_sum_of(tensor);
  }
}

class NcclTransport final : public detail::Transport {
 public:
  NcclTransport(MPI_Comm comm, const detail::DeviceLink& link) : device_(link.device) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    ncclUniqueId id{};
    if (rank == 0) check(api()->unique_id(&id), "ncclGetUniqueId");
    check_mpi(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, comm), "MPI_Bcast");
    const c10::DeviceGuard here(device_);
    check(api()->init_rank(&comm_, size, id, rank), "ncclCommInitRank");
  }
  ~NcclTransport() override { api()->destroy(comm_); }

  void broadcast(at::Tensor& tensor, int root) override {
    check(api()->broadcast(tensor.data_ptr(), tensor.data_ptr(), tensor.nbytes(), ncclUint8, root, comm_,
                           stream()),
          "ncclBroadcast");
  }
  void all_reduce_sum(at::Tensor& tensor) override {
    check(api()->all_reduce(tensor.data_ptr(), tensor.data_ptr(), count(tensor), sum_type(tensor), ncclSum,
                            comm_, stream()),
          "ncclAllReduce");
  }
  void all_gather(const at::Tensor& mine, at::Tensor& all) override {
    check(api()->all_gather(mine.data_ptr(), all.data_ptr(), mine.nbytes(), ncclUint8, comm_, stream()),
          "ncclAllGather");
  }

 private:
  static std::size_t count(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }
  cudaStream_t stream() const {
    return static_cast<cudaStream_t>(
        c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).native_handle());
  }

  c10::Device device_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::string nccl_problem() {
  if (api() != nullptr) return {};
  return fmt::format("this process has no NCCL ({} is not found)", look_up().missing);
}

std::string nccl_version() {
  int code = 0;
  if (api() == nullptr || api()->get_version(&code) != ncclSuccess) return {};
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

namespace detail {

std::unique_ptr<Transport> make_nccl_transport(MPI_Comm comm, const DeviceLink& link) {
  return std::make_unique<NcclTransport>(comm, link);
}

}  // namespace detail

}  // namespace taugrid::comm

#else

#include <stdexcept>

namespace taugrid::comm {

std::string nccl_problem() { return "taugrid was built without NCCL's headers"; }
std::string nccl_version() { return {}; }

namespace detail {
std::unique_ptr<Transport> make_nccl_transport(MPI_Comm, const DeviceLink&) {
  throw std::logic_error(nccl_problem());
}
}  // namespace detail

}  // namespace taugrid::comm

#endif
