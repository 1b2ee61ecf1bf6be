// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVML: one GPU, whose counter stands in the environment (STUB_MILLIJOULES; absent: the GPU
// has none). STUB_UUID is its name; STUB_NVML_BROKEN makes the library not start.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
int gpu = 0;
bool started = false;
constexpr int uninitialized = 1, not_supported = 3, not_found = 6, driver_not_loaded = 9;
}  // namespace

extern "C" {
int nvmlInit_v2() {
  if (std::getenv("STUB_NVML_BROKEN") != nullptr) return driver_not_loaded;
  started = true;
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (!started) return uninitialized;
  const char* mine = std::getenv("STUB_UUID");
  if (mine == nullptr || std::strcmp(mine, uuid) != 0) return not_found;
  *device = &gpu;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  const char* text = std::getenv("STUB_MILLIJOULES");
  if (device != &gpu || text == nullptr) return not_supported;
  *millijoules = std::stoull(text);
  return 0;
}
}
