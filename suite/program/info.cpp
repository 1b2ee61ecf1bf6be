// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <thread>

#include "suite/comm/device.hpp"
#include "suite/machine/versions.hpp"
#include "suite/models/registry.hpp"
#include "suite/program/commands.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::program {

int info() {
  fmt::print("taugrid: how task vectors compose\n\n");
  for (const auto& [name, value] : machine::versions()) fmt::print("  {:<24}{}\n", name, value);
  fmt::print("  {:<24}{}\n", "cores", std::thread::hardware_concurrency());
  const int gpus = comm::visible_gpus();
  fmt::print("  {:<24}cpu{}\n", "devices", gpus == 0 ? "" : fmt::format(", {} GPUs", gpus));
  fmt::print("  {:<24}{}\n", "regimes", fmt::join(study::regime_names(), ", "));
  fmt::print("  {:<24}{}\n", "architectures", fmt::join(models::architectures(), ", "));
  return 0;
}

}  // namespace taugrid::program
