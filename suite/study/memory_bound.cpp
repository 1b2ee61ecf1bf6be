// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/memory_bound.hpp"

#include <unistd.h>

#include <algorithm>

#include "suite/comm/device.hpp"

namespace taugrid::study {

double host_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

MemoryBound MemoryBound::of(double asked, at::Device device, int ranks) {
  double all = asked;
  if (all <= 0 && device.is_cuda()) all = 0.4 * comm::gpu_memory();
  if (all <= 0) all = host_memory() / 2 / std::max(1, ranks);
  return {static_cast<std::size_t>(all / 3 * 2), static_cast<std::size_t>(all / 6)};
}

}  // namespace taugrid::study
