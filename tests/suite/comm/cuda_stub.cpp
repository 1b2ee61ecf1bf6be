// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A stand-in for the CUDA driver, found as libcuda.so.1: STUB_GPUS devices, whose memory is the host's. Says
// on stderr which one is made current, and whether MPI runs by then. With STUB_FAR, its memory is no address
// of the host; with STUB_BUSY, no device can be used; with STUB_BROKEN, the driver does not start.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
int number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}
constexpr std::uint64_t far_away = std::uint64_t{1} << 46;  // added to addresses
std::uint64_t offset() { return number("STUB_FAR") != 0 ? far_away : 0; }
pid_t started_by = 0;
}  // namespace

extern "C" {
// As the real one: of no use in a process forked off after it was started.
int cuInit(unsigned) {
  if (number("STUB_GPUS") == 0) return 100;
  if (number("STUB_BROKEN") != 0) return 802;
  if (started_by == 0) started_by = getpid();
  return started_by == getpid() ? 0 : 3;
}
int cuDeviceGetCount(int* count) {
  *count = number("STUB_GPUS");
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return index < number("STUB_GPUS") ? 0 : 101;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "Stub 3000");
  return 0;
}
int cuDeviceGetUuid(unsigned char* uuid, int device) {
  std::memset(uuid, device + 1, 16);
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (number("STUB_BUSY") != 0) return 46;
  *context = reinterpret_cast<void*>(static_cast<std::intptr_t>(device + 1));
  return 0;
}
int cuCtxSetCurrent(void* context) {
  int running = 0;
  if (auto* ask = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "MPI_Initialized"))) ask(&running);
  std::fprintf(stderr, "current device %d, MPI %s\n",
               static_cast<int>(reinterpret_cast<std::intptr_t>(context)) - 1,
               running != 0 ? "runs" : "waits");
  return 0;
}
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  *address = reinterpret_cast<std::uint64_t>(std::malloc(bytes)) + offset();
  return 0;
}
int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to - offset()), from, bytes);
  return 0;
}
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from - offset()), bytes);
  return 0;
}
}
