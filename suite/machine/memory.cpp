// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/machine/memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>

namespace taugrid::machine {
namespace {

constexpr std::size_t largest_kept = std::size_t{32} << 20;  // glibc's largest
constexpr std::size_t huge_page = std::size_t{1} << 21;

/// Blocks of whole huge pages.
class Blocks {
 public:
  void* take(std::size_t bytes) {
    const auto wanted = (bytes + huge_page - 1) / huge_page * huge_page;
    const std::scoped_lock lock(mutex_);
    const auto spare = free_.lower_bound(wanted);
    constexpr std::size_t slack = 8;  // an eighth of a block may lie idle
    auto size = wanted;
    void* block = nullptr;
    if (spare != free_.end() && spare->first <= wanted + wanted / slack) {
      size = spare->first;
      block = spare->second;
      count_.kept -= size;
      free_.erase(spare);
    } else {
      give_back(std::max(count_.most, count_.used + wanted) - wanted);
      block = c10::alloc_cpu(wanted);  // throws c10::Error where there is none
      advise(block, wanted, MADV_HUGEPAGE);
    }
    used_.emplace(block, size);
    count_.used += size;
    count_.most = std::max(count_.most, count_.used);
    c10::profiledCPUMemoryReporter().New(block, bytes);
    return block;
  }

  /// Whether it was one of these blocks.
  bool put_back(void* block) {
    const std::scoped_lock lock(mutex_);
    const auto entry = used_.find(block);
    if (entry == used_.end()) return false;
    const auto size = entry->second;
    used_.erase(entry);
    c10::profiledCPUMemoryReporter().Delete(block);
    advise(block, size, MADV_FREE);
    free_.emplace(size, block);
    count_.used -= size;
    count_.kept += size;
    return true;
  }

  LargeBlocks count() {
    const std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  /// Until those in use and those kept are `most` at most: the largest first.
  void give_back(std::size_t most) {
    while (!free_.empty() && count_.used + count_.kept > most) {
      const auto last = std::prev(free_.end());
      count_.kept -= last->first;
      c10::free_cpu(last->second);
      free_.erase(last);
    }
  }

  /// Advises on the whole huge pages inside; where the system refuses, pages are as ever.
  static void advise(void* block, std::size_t bytes, int what) {
    const auto begin = reinterpret_cast<std::uintptr_t>(block), end = begin + bytes;
    const auto first = (begin + huge_page - 1) / huge_page * huge_page, last = end / huge_page * huge_page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, what);
  }

  std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;
  std::unordered_map<void*, std::size_t> used_;
  LargeBlocks count_;
};

Blocks& blocks() {
  static auto* all = new Blocks;  // tensors may outlive what is destroyed at the end
  return *all;
}

/// LibTorch's own for what glibc keeps.
class WideAllocator final : public c10::Allocator {
 public:
  explicit WideAllocator(c10::Allocator& plain) : plain_(plain) { small_ = plain.raw_deleter(); }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < largest_kept) return plain_.allocate(bytes);
    auto* block = blocks().take(bytes);
    return {block, block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    plain_.copy_data(to, from, bytes);
  }

 private:
  static void release(void* block) {
    if (!blocks().put_back(block)) small_(block);
  }

  c10::Allocator& plain_;
  inline static c10::DeleterFnPtr small_ = nullptr;
};

}  // namespace

void keep_and_widen_memory() {
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(largest_kept));
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
  static WideAllocator wide(*c10::GetCPUAllocator());
  c10::SetCPUAllocator(&wide);
}

LargeBlocks large_blocks() { return blocks().count(); }

}  // namespace taugrid::machine
