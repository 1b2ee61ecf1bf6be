// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/machine/machine.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/cpu/Utils.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "kernels/full_products.hpp"
#include "kernels/weights/backend.hpp"
#include "suite/comm/host_products.hpp"
#include "suite/comm/processor.hpp"
#include "suite/machine/triad.hpp"
#include "taugrid_version.hpp"

namespace taugrid::machine {
namespace {

/// The least of at least 8 runs and a quarter of a second: a peak is what the machine does undisturbed.
template <class F>
double best_seconds(F&& f) {
  double best = 1e30, total = 0;
  for (int i = 0; i < 8 || total < 0.25; ++i) {
    const auto began = std::chrono::steady_clock::now();
    f();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

double product_flops(c10::Device device, at::ScalarType type) {
  const std::int64_t n = device.is_cuda() ? 8192 : 1024;
  const auto options = at::TensorOptions(type).device(device);
  const auto a = at::randn({n, n}, at::kFloat).to(options), b = at::randn({n, n}, at::kFloat).to(options);
  auto c = at::empty({n, n}, options);
  run_on(device, [&] { at::mm_out(c, a, b); });
  const double cubed = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return 2.0 * cubed / best_seconds([&] { run_on(device, [&] { at::mm_out(c, a, b); }); });
}

Peaks device_peaks(c10::Device device) {
  constexpr std::int64_t n = std::int64_t{1} << 25;
  const auto b = at::full({n}, 1.0f, at::TensorOptions(at::kFloat).device(device)), c = 2 * b;
  auto a = at::zeros_like(b);
  Peaks peaks{product_flops(device, at::kFloat), 0, product_flops(device, at::kBFloat16)};
  const double seconds = best_seconds([&] { run_on(device, [&] { at::add_out(a, b, c, 3.0f); }); });
  peaks.bytes = 3.0 * sizeof(float) * static_cast<double>(n) / seconds;
  return peaks;
}

}  // namespace

Peaks measure_peaks(c10::Device device) {
  const at::NoGradGuard no_grad;
  if (!device.is_cpu()) return device_peaks(device);
  Peaks peaks{};
  peaks.flops = product_flops(device, at::kFloat);
  if (comm::multiplies_bfloat16()) {
    const WithHostProducts rounded(HostProducts::rounded);
    peaks.bf16_flops = product_flops(device, at::kFloat);
  }
  constexpr std::int64_t n = std::int64_t{1} << 25;
  const auto b = at::full({n}, 1.0f), c = at::full({n}, 2.0f);
  auto a = at::zeros({n});
  float* out = a.mutable_data_ptr<float>();
  const float* left = b.const_data_ptr<float>();
  const float* right = c.const_data_ptr<float>();
  const double seconds = best_seconds([&] {
    at::parallel_for(0, n, std::int64_t{1} << 20, [&](std::int64_t begin, std::int64_t end) {
      triad(out + begin, left + begin, right + begin, end - begin);
    });
  });
  peaks.bytes = 3.0 * sizeof(float) * static_cast<double>(n) / seconds;
  return peaks;
}

std::vector<std::pair<std::string, std::string>> describe_machine() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::ifstream load("/proc/loadavg");
  std::string busy;
  load >> busy;
  const auto backend = weights::backend();
  return {{"taugrid", std::string(version) + " (" + git_revision + ")"},
          {"build", std::string(build_type) + ", " + compiler},
          {"libtorch", TORCH_VERSION},
          {"kokkos", backend.kokkos + ", " + backend.host},
          {"host", host.data()},
          {"processor", comm::of_processor("model name")},
          {"instructions", at::get_cpu_capability()},
          {"products", host_products_in_use() == HostProducts::blas ? "BLAS" : "oneDNN"},
          {"cores", std::to_string(std::thread::hardware_concurrency())},
          {"threads", std::to_string(at::get_num_threads())},
          {"load", busy}};
}

}  // namespace taugrid::machine
