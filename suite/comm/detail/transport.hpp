// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What moves tensors among the ranks of one group: MPI those of the host, NCCL those of a device.
#pragma once

#include <ATen/core/Tensor.h>
#include <mpi.h>

#include <cstdint>
#include <memory>
#include <stdexcept>

namespace taugrid::comm::detail {

struct DeviceLink;

/// A transport throws this where it has no sum of the tensor's type.
std::invalid_argument no_sum_of(const at::Tensor& tensor);

/// Tensors are contiguous and agree in shape and type on all ranks. Sums are of float32, float64, int32 and
/// int64; std::invalid_argument for other types.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual void broadcast(at::Tensor& tensor, int root) = 0;
  virtual void all_reduce_sum(at::Tensor& tensor) = 0;
  virtual void all_gather(const at::Tensor& mine, at::Tensor& all) = 0;
};

/// Sums are added in rank order: bitwise the same on every rank, on any network and in every run. Tensors of
/// a device are handed to MPI as they are: for a CUDA-aware one. `patient`: all_reduce_sum sleeps while it
/// waits, and leaves the core to those that compute.
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, std::int64_t chunk_bytes, bool patient = false);

/// Operations run on the tensor's current stream: the host does not wait for them. Collective.
std::unique_ptr<Transport> make_nccl_transport(MPI_Comm comm, const DeviceLink& link);

}  // namespace taugrid::comm::detail
