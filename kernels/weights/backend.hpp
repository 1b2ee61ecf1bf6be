// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the weight-space kernels were built with, for reports.
#pragma once

#include <string>

namespace taugrid::weights {

struct Backend {
  std::string kokkos;  ///< version: "4.6.2"
  std::string host;    ///< Kokkos' default host execution space: "OpenMP"
  std::string device;  ///< its default execution space: "Cuda"; the host's where it was built for no other
};

Backend backend();

}  // namespace taugrid::weights
