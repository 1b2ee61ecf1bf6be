// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/machine/peak_memory.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>

namespace taugrid::machine {

// The autograd engine takes the thread's information along, so backward passes are counted too.
class PeakMemory::Counter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    const auto now = live_ += size;
    auto peak = peak_.load();
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t peak() const { return peak_; }

 private:
  std::atomic<std::int64_t> live_{0}, peak_{0};
};

PeakMemory::PeakMemory() : counter_(std::make_shared<Counter>()) {
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, counter_);
}

PeakMemory::~PeakMemory() { c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE); }

std::int64_t PeakMemory::bytes() const { return counter_->peak(); }

}  // namespace taugrid::machine
