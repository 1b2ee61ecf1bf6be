// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The most bytes of tensors alive at once, counted by LibTorch's own allocators.
#pragma once

#include <cstdint>
#include <memory>

namespace taugrid::machine {

/// Counts the tensors that this thread allocates while the object lives, on whatever device. Not nestable.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  std::int64_t bytes() const;

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
};

}  // namespace taugrid::machine
