// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured in this process with the threads in use.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/full_products.hpp"
#include "suite/comm/device.hpp"

namespace taugrid::machine {

struct Peaks {
  double flops;  ///< a second, of a float32 matrix product of 1,024³ (a GPU: 8,192³) by LibTorch's BLAS
  double
      bytes;  ///< a second, of the triad a = b + s·c over 3·134 MB (J. McCalpin, STREAM): 12 bytes an entry
  double bf16_flops = 0;  ///< as `flops`, in bfloat16; of hosts as bf16_products has it, where they can
};

/// Whether LibTorch multiplies factors that are rounded to bfloat16 on this host, which is tried: with AMX it
/// does. With AVX512-BF16 alone oneDNN 3.10 multiplies whole float32 numbers, and so it does where
/// ONEDNN_MAX_CPU_ISA forbids AMX.
bool multiplies_bfloat16();

/// What multiplies matrices of float32 fastest on this host and keeps all their digits: of AMD's processors
/// with AVX-512 oneDNN, of all others the BLAS. MKL takes AVX2 on AMD's; oneDNN takes AVX-512, and is from
/// 1.05 (Zen 4) to 2 times (Zen 5) as fast where a product is not small: a call takes 15 µs more. Known by
/// the processor, not measured, so that a run that goes on after a stop computes as before.
HostProducts host_products();
/// The same for a model whose matrices have so many numbers on the average.
HostProducts host_products(double numbers_of_matrix);

/// The best of several runs each.
Peaks measure_peaks(c10::Device device);

/// Runs f, and waits until the device has done it.
template <class F>
void run_on(c10::Device device, F&& f) {
  f();
  comm::wait_for_device(device);
}

/// Host, processor, threads, load, versions: what a reader needs to judge the figures.
std::vector<std::pair<std::string, std::string>> describe_machine();

}  // namespace taugrid::machine
