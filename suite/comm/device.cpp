// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/device.hpp"

#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/full_products.hpp"
#include "suite/comm/detail/device.hpp"
#include "suite/comm/detail/driver.hpp"
#include "suite/error.hpp"

namespace taugrid::comm {

namespace {

ChosenDevice use_gpu(int gpus, bool mpi_takes_its_memory) {
  const int index = launcher_local_rank().value_or(0) % gpus;
  ChosenDevice chosen;
  chosen.mpi_takes_its_memory = mpi_takes_its_memory;
  const auto [name, number] = detail::driver().use(index);
  if (const auto problem = detail::load_cuda_part(); !problem.empty())
    throw InputError(fmt::format("no CUDA: {}", problem));
  chosen.place = c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
  try {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).setDevice(chosen.place);
    allow_reduced_products(false);                    // until a run asks for them
    at::globalContext().setDeterministicCuDNN(true);  // a run done again gives the same numbers
  } catch (const c10::Error& error) {                 // such as a driver older than LibTorch's CUDA
    const std::string reason = error.what_without_backtrace();
    throw InputError(fmt::format("no CUDA: {}", reason.substr(0, reason.find('\n'))));
  }
  chosen.name = fmt::format("{} {}", chosen.place.str(), name);
  chosen.identity = number;
  return chosen;
}

}  // namespace

std::optional<int> launcher_local_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
                           "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    if (const char* text = std::getenv(name)) {
      char* end = nullptr;
      const long value = std::strtol(text, &end, 10);
      if (end != text && *end == '\0' && value >= 0 && value < 100000) return static_cast<int>(value);
    }
  }
  return std::nullopt;
}

// One rank a host tries for all; its GPU is the first.
bool mpi_takes_gpu_memory() {
  static const bool takes = launcher_local_rank().value_or(0) == 0 && detail::mpi_takes_device_memory();
  return takes;
}

int visible_gpus() { return detail::driver().gpus(); }

double gpu_memory() { return visible_gpus() == 0 ? 0 : detail::driver().memory(0); }

double gpu_memory_in_use() { return visible_gpus() == 0 ? 0 : detail::driver().memory_in_use(); }

ChosenDevice choose_device(const std::string& wanted) {
  if (wanted == "cpu") return {};
  if (wanted == "auto" || wanted == "cuda") {
    const bool takes = mpi_takes_gpu_memory();
    const int gpus = visible_gpus();
    if (gpus > 0 && wanted == "cuda") return use_gpu(gpus, takes);
    if (gpus > 0) {
      try {
        return use_gpu(gpus, takes);
      } catch (const InputError& error) {
        ChosenDevice cpu;
        cpu.warning = fmt::format("{} GPUs are there, and none is used: {}", gpus, error.what());
        return cpu;
      }
    }
    const auto trouble = detail::driver().trouble();
    if (wanted == "auto") {
      ChosenDevice cpu;
      if (!trouble.empty()) cpu.warning = fmt::format("no GPU is used: {}", trouble);
      return cpu;
    }
    const char* shown = std::getenv("CUDA_VISIBLE_DEVICES");
    throw InputError(fmt::format("device cuda: no GPU is seen here{}{}",
                                 trouble.empty() ? "" : ": " + trouble,
                                 shown == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", shown)));
  }
  // What a program brings with it, as the tests do. LibTorch knows more names (meta, …), of devices that
  // compute nothing here.
  try {
    const c10::Device type(wanted);
    if (type.type() == c10::DeviceType::PrivateUse1) {
      ChosenDevice other;
      const c10::impl::VirtualGuardImpl there(type.type());
      other.place = c10::Device(type.type(), 0);
      other.name = other.place.str();
      other.identity = fmt::format("{} of process {}", other.name, getpid());
      return other;
    }
  } catch (const c10::Error&) {  // LibTorch has no such name, or no such device
  }
  throw InputError(fmt::format("device \"{}\": expected auto, cpu or cuda", wanted));
}

void wait_for_device(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

// Lies beside its CPU part. Its kernels register themselves when it is loaded.
std::string detail::load_cuda_part() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) == 0 || info.dli_fname == nullptr)
    return "LibTorch's folder cannot be found";
  const auto path = std::filesystem::path(info.dli_fname).parent_path() / "libtorch_cuda.so";
  if (!std::filesystem::exists(path)) return "this LibTorch was built without CUDA";
  return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr ? "" : dlerror();
}

namespace {

// Asked on the monitor's thread, whose own device would be the first, of another rank perhaps; and where the
// device has failed, it is the computing thread that says so.
std::function<bool()> whether_done(std::shared_ptr<c10::Event> event, c10::Device device) {
  return [event = std::move(event), device] {
    try {
      c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
      return event->query();
    } catch (const c10::Error&) {
      return true;
    }
  };
}

}  // namespace

std::function<bool()> detail::mark_on_device(c10::Device device) {
  auto event = std::make_shared<c10::Event>(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return whether_done(event, device);
}

Beside beside(c10::Device device, const std::function<void()>& ask) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  static std::map<std::string, c10::Stream> streams;  // one a device is enough: sums come one by one
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const auto stream =
      streams.try_emplace(device.str(), guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true))
          .first->second;
  c10::Event ready(device.type());
  ready.record(guard.getStream(device));
  ready.block(stream);
  auto done = std::make_shared<c10::Event>(device.type());
  {
    const c10::StreamGuard other(stream);
    ask();
    done->record(stream);
  }
  return {[done, device] { done->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device)); },
          whether_done(done, device)};
}

void use_on_current_stream(const at::Tensor& tensor) {
  const c10::impl::VirtualGuardImpl guard(tensor.device().type());
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), guard.getStream(tensor.device()));
}

}  // namespace taugrid::comm
