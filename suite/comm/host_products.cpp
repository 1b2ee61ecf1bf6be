// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/host_products.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/cpu/Utils.h>

#include <algorithm>
#include <string>

#include "suite/comm/processor.hpp"

namespace taugrid::comm {

namespace {

bool made_by_amd() { return of_processor("vendor_id") == "AuthenticAMD"; }

}  // namespace

bool multiplies_bfloat16() {
  const auto all = at::cpu::get_cpu_capabilities();
  const bool able = std::any_of(all.begin(), all.end(), [](const auto& capability) {
    return capability.first.find("bf16") != std::string::npos && capability.second.isBool() &&
           capability.second.toBool();
  });
  if (!able) return false;
  const at::NoGradGuard no_grad;
  constexpr std::int64_t n = 256;
  const auto factor = at::full({n, n}, 1 + 0x1p-12);  // which bfloat16 rounds to 1
  const WithHostProducts rounded(HostProducts::rounded);
  return at::mm(factor, factor)[0][0].item<double>() == n;
}

HostProducts fastest_host_products() {
  static const bool by_onednn =
      at::get_cpu_capability() == "AVX512" && made_by_amd() && !multiplies_bfloat16();
  return by_onednn ? HostProducts::onednn : HostProducts::blas;
}

HostProducts fastest_host_products(double numbers_of_matrix) {
  constexpr double enough = 1e4;
  return numbers_of_matrix < enough ? HostProducts::blas : fastest_host_products();
}

}  // namespace taugrid::comm
