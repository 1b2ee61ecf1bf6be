// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What collectives need to know of this rank's device.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>

namespace taugrid::comm::detail {

/// `identity`: the same only for ranks that share the device.
struct DeviceLink {
  c10::Device device{c10::DeviceType::CPU};
  std::string identity;
  bool mpi_takes_device_memory = false;
};

/// Whether the device has done what the current stream was asked for so far.
std::function<bool()> mark_on_device(c10::Device device);

}  // namespace taugrid::comm::detail
