// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A device for rehearsals of the GPU path where there is no GPU: its memory is the host's and its kernels the
// CPU's, so that numbers are the CPU's bit for bit; but it refuses what a GPU refuses, tensors of host and
// device in one operation, and counts what makes the host wait for a GPU. Linked or preloaded, LibTorch knows
// it as "rehearsal".
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace taugrid::test {

c10::Device rehearsal_device();

/// How often the host had to wait for the device: single numbers read, tensors copied to the host, or to the
/// device without being told not to wait, shapes that depend on numbers.
std::int64_t host_waits_so_far();

}  // namespace taugrid::test
