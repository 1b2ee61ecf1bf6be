// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which device a rank computes on. Chosen before MPI starts: a CUDA-aware MPI takes the device that is
// current then.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>

namespace taugrid::comm {

struct ChosenDevice {
  c10::Device place{c10::DeviceType::CPU};
  std::string name = "cpu";           ///< "cuda:0 NVIDIA H100 80GB HBM3"
  std::string identity;               ///< the same only for ranks that share it; empty: the CPU
  std::string warning;                ///< why no GPU is used although one may be there
  bool mpi_takes_its_memory = false;  ///< tried, on the first rank of each host
};

/// `wanted`: "auto" (a GPU where there is one), "cpu", "cuda", or another device type that LibTorch was
/// taught. The GPU is the launcher's number of this rank on its host, modulo the GPUs that this process sees:
/// right where the launcher shows each rank all of them, and where it shows each its own. Makes it current,
/// and loads LibTorch's CUDA part, which CPU runs do without. Throws InputError where the wanted device is
/// not there.
ChosenDevice choose_device(const std::string& wanted);

/// Returns once the device has done all that was asked of it on the current stream. Nothing to do on a CPU.
void wait_for_device(c10::Device device);

/// Work of a device on a stream of its own.
struct Beside {
  std::function<void()> wait;      ///< the current stream, not the host, waits for it
  std::function<bool()> finished;  ///< whether it is done
};

/// Calls `ask` with another stream of the device current, which begins after what the current one was asked
/// for so far. Not for a CPU; not within another.
Beside beside(c10::Device device, const std::function<void()>& ask);

/// Keeps the memory of a tensor that was made on a stream beside: once freed, it is given to others only
/// after the current stream has done what it was asked for by then.
void use_on_current_stream(const at::Tensor& tensor);

/// This rank's number among those of its host, as mpirun, srun and the other launchers give it to processes
/// before MPI starts.
std::optional<int> launcher_local_rank();

/// Whether MPI moves GPU memory: tried once, on the first rank of each host; false on the others. The trial
/// is a forked process, of no use once CUDA runs here: choose_device begins with it, and a program that
/// starts CUDA sooner calls this before.
bool mpi_takes_gpu_memory();

/// GPUs that this process sees, by the CUDA driver; 0 without one.
int visible_gpus();

/// Bytes of memory of the first GPU that this process sees; 0 without one.
double gpu_memory();

/// Bytes that are taken of this rank's GPU; 0 without one.
double gpu_memory_in_use();

}  // namespace taugrid::comm
