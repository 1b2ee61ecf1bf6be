// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/detail/driver.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "suite/error.hpp"

namespace taugrid::comm::detail {

Driver::Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {}

template <class Function, class... Arguments>
int Driver::call(const char* name, Arguments... arguments) const {
  auto* function = library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
  return function == nullptr ? -1 : function(arguments...);
}

int Driver::gpus() const {
  int count = 0;
  return call<int(unsigned)>("cuInit", 0U) == 0 && call<int(int*)>("cuDeviceGetCount", &count) == 0 ? count
                                                                                                    : 0;
}

std::string Driver::trouble() const {
  constexpr int no_device = 100;
  if (!is_loaded()) return {};
  const int code = call<int(unsigned)>("cuInit", 0U);
  return code == 0 || code == no_device
             ? ""
             : fmt::format("the CUDA driver does not start (cuInit gives error {})", code);
}

std::pair<std::string, std::string> Driver::use(int index) const {
  int device = 0;
  void* context = nullptr;
  std::array<char, 128> name{};
  std::array<unsigned char, 16> number{};
  const auto require = [index](int code, const char* what) {
    if (code != 0)
      throw InputError(fmt::format("GPU {} cannot be used: {} gives error {}", index, what, code));
  };
  require(call<int(unsigned)>("cuInit", 0U), "cuInit");
  require(call<int(int*, int)>("cuDeviceGet", &device, index), "cuDeviceGet");
  require(
      call<int(char*, int, int)>("cuDeviceGetName", name.data(), static_cast<int>(name.size()) - 1, device),
      "cuDeviceGetName");
  // The second version tells the parts of one GPU (MIG) from each other; old drivers have the first alone.
  if (call<int(unsigned char*, int)>("cuDeviceGetUuid_v2", number.data(), device) != 0)
    require(call<int(unsigned char*, int)>("cuDeviceGetUuid", number.data(), device), "cuDeviceGetUuid");
  require(call<int(void**, int)>("cuDevicePrimaryCtxRetain", &context, device), "cuDevicePrimaryCtxRetain");
  require(call<int(void*)>("cuCtxSetCurrent", context), "cuCtxSetCurrent");
  std::string text;
  for (const auto byte : number) text += fmt::format("{:02x}", byte);
  return {name.data(), text};
}

double Driver::memory(int index) const {
  int device = 0;
  std::size_t bytes = 0;
  call<int(int*, int)>("cuDeviceGet", &device, index);
  call<int(std::size_t*, int)>("cuDeviceTotalMem_v2", &bytes, device);
  return static_cast<double>(bytes);
}

double Driver::memory_in_use() const {
  std::size_t free = 0, total = 0;
  call<int(std::size_t*, std::size_t*)>("cuMemGetInfo_v2", &free, &total);
  return static_cast<double>(total - free);
}

std::uint64_t Driver::allocate(std::size_t bytes) const {
  std::uint64_t address = 0;
  return call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2", &address, bytes) == 0 ? address : 0;
}

bool Driver::to_device(std::uint64_t to, const void* from, std::size_t bytes) const {
  return call<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2", to, from, bytes) == 0;
}

bool Driver::to_host(void* to, std::uint64_t from, std::size_t bytes) const {
  return call<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2", to, from, bytes) == 0;
}

const Driver& driver() {
  static const Driver instance;
  return instance;
}

}  // namespace taugrid::comm::detail
