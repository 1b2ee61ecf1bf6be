// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How much a rank may hold of what can be read or computed again.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace taugrid::study {

/// Bytes of this host's memory.
double host_memory();

/// Bytes. What is in use is held besides: two task vectors at least, and one sample.
struct MemoryBound {
  std::size_t vectors = std::size_t{4} << 30;
  std::size_t samples = std::size_t{2} << 30;  ///< and outputs of frozen stages as much again

  /// `asked`: bytes for all of it, or 0: two fifths of a GPU's memory; on a host, half of its memory shared out
  /// to the `ranks` on it. Two thirds are for vectors.
  static MemoryBound of(double asked, at::Device device, int ranks);
};

}  // namespace taugrid::study
