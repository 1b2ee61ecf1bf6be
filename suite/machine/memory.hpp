// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How this process takes memory from the system.
#pragma once

#include <cstddef>

namespace taugrid::machine {

/// Activations come and go by the megabyte: kept by the process, not given back and faulted in anew each
/// time. Blocks of more than glibc keeps, such as vectors of all parameters, come in huge pages where the
/// system has some, and stay here when they are free, for the next of about their size: clearing fresh pages
/// takes longer than most of what is done with a vector. All blocks together, free ones too, never take more
/// than those in use took at most; and the system may have the pages of free ones back when it is short of
/// memory. To be called before there are tensors.
void keep_and_widen_memory();

/// Bytes of the large blocks: in use, free and kept, and the most that were in use at once.
struct LargeBlocks {
  std::size_t used = 0, kept = 0, most = 0;
};
LargeBlocks large_blocks();

}  // namespace taugrid::machine
