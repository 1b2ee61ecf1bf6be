// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured in this process with the threads in use.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <utility>
#include <vector>

#include "suite/comm/device.hpp"

namespace taugrid::machine {

struct Peaks {
  double flops;  ///< a second, of a float32 matrix product of 1,024³ (a GPU: 8,192³) by LibTorch's BLAS
  double
      bytes;  ///< a second, of the triad a = b + s·c over 3·134 MB (J. McCalpin, STREAM): 12 bytes an entry
  double bf16_flops = 0;  ///< as `flops`, in bfloat16; of hosts as bf16_products has it, where they can
};

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
