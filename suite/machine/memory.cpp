// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/machine/memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>

namespace taugrid::machine {
namespace {

constexpr std::size_t largest_kept = std::size_t{32} << 20;  // glibc's largest
constexpr std::uintptr_t huge_page = std::uintptr_t{1} << 21;

/// LibTorch's own, which asks for huge pages for what is mapped and unmapped each time.
class WideAllocator final : public c10::Allocator {
 public:
  explicit WideAllocator(c10::Allocator& plain) : plain_(plain) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    auto data = plain_.allocate(bytes);
    if (bytes >= largest_kept) {
      const auto begin = reinterpret_cast<std::uintptr_t>(data.get()), end = begin + bytes;
      const auto first = (begin + huge_page - 1) / huge_page * huge_page, last = end / huge_page * huge_page;
      madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // refused: pages as ever
    }
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override { return plain_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    plain_.copy_data(to, from, bytes);
  }

 private:
  c10::Allocator& plain_;
};

}  // namespace

void keep_and_widen_memory() {
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(largest_kept));
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
  static WideAllocator wide(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&wide);
}

}  // namespace taugrid::machine
