// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which device a rank computes on, and with how many others.
#pragma once

#include <string>

#include "suite/comm/runtime.hpp"

namespace taugrid::comm {

struct DeviceSharing {
  std::string
      identity;   ///< the same only for ranks that share it: of a GPU its UUID's digits; empty: the CPU
  int ranks = 1;  ///< that compute on it
};

/// As gathered when the threads were last set.
DeviceSharing device_sharing(const Runtime& runtime);

}  // namespace taugrid::comm
