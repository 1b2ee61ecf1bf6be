// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The few calls of the CUDA driver that are needed before MPI and LibTorch's CUDA part are there. The driver
// is loaded where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace taugrid::comm::detail {

class Driver {
 public:
  Driver();

  /// Whether its library is there: asked without starting it.
  bool is_loaded() const { return library_ != nullptr; }
  /// The number of GPUs that this process sees; 0 without a driver.
  int gpus() const;
  /// The reason why no GPU is seen although one is there: "cuInit gives error 802".
  std::string trouble() const;
  /// Makes GPU `index` current, as MPI will find it. Returns its name, and a number that no other GPU has.
  /// Throws InputError.
  std::pair<std::string, std::string> use(int index) const;

  /// Bytes that GPU `index` has.
  double memory(int index) const;
  /// Bytes that are taken of the current GPU, by whomever.
  double memory_in_use() const;
  /// Memory of the current GPU; 0 where there is none left.
  std::uint64_t allocate(std::size_t bytes) const;
  bool to_device(std::uint64_t to, const void* from, std::size_t bytes) const;
  bool to_host(void* to, std::uint64_t from, std::size_t bytes) const;

 private:
  template <class Function, class... Arguments>
  int call(const char* name, Arguments... arguments) const;
  void* library_;
};

const Driver& driver();

/// Loads LibTorch's CUDA part, and with it its NCCL. Returns why it cannot; empty where it is loaded.
std::string load_cuda_part();

/// Whether MPI moves a buffer of the first GPU. Before MPI is started here and before any call of the driver:
/// a process that is forked off after cuInit cannot use CUDA.
bool mpi_takes_device_memory();

}  // namespace taugrid::comm::detail
