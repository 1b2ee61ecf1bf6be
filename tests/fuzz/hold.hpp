// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What every fuzz target holds its reader to: an input is read, or refused by an InputError of one printable
// line; memory stays in proportion to the input. Crashes, hangs and undefined behaviour are the fuzzer's to
// see.
#pragma once

#include <sanitizer/allocator_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "suite/error.hpp"

namespace taugrid::fuzz {

/// Ends the process; the fuzzer keeps the input.
[[noreturn]] inline void fail(const char* what, const std::string& text = "") {
  std::fprintf(stderr, "fuzz: %s: %s\n", what, text.c_str());
  std::abort();
}

/// Counts the bytes that live while it is armed; more than the limit at once fails.
class Ledger {
 public:
  explicit Ledger(std::size_t limit) {
    static const bool installed = __sanitizer_install_malloc_and_free_hooks(&taken, &given_back) != 0;
    if (!installed) fail("no malloc hooks");
    live = 0;
    ceiling = static_cast<std::int64_t>(limit);
  }
  ~Ledger() { ceiling = 0; }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

 private:
  static void taken(const volatile void*, std::size_t bytes) {
    if (ceiling == 0) return;
    live += static_cast<std::int64_t>(bytes);
    if (live > ceiling) {
      std::fprintf(stderr, "fuzz: %zu bytes more make %lld, %lld are justified\n", bytes,
                   static_cast<long long>(live), static_cast<long long>(ceiling));
      ceiling = 0;
      std::abort();
    }
  }
  static void given_back(const volatile void* data) {
    if (ceiling != 0 && data != nullptr) {
      live -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(data)));
    }
  }
  static inline std::int64_t live = 0;
  static inline std::int64_t ceiling = 0;  // 0: not armed
};

/// One line that a terminal shows as it is.
inline void check_message(const std::string& text) {
  const auto control = [](unsigned char c) { return c < ' ' || c == 0x7f; };
  if (text.empty() || std::any_of(text.begin(), text.end(), control)) {
    fail("a message is not one printable line", text);
  }
}

/// Whether `read` accepted its input. At most `limit` bytes may live at once in it.
template <class Read>
bool accepted(std::size_t limit, Read&& read) {
  const Ledger ledger(limit);
  try {
    read();
    return true;
  } catch (const InputError& error) {
    check_message(error.what());
  } catch (const std::exception& error) {
    fail("an exception that is no InputError", error.what());
  }
  return false;
}

/// A file in memory; each has an inode of its own, as readers know files by it.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzz", 0)) {
    if (descriptor_ < 0 ||
        ::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      fail("no memory file");
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// A folder in memory, where the system has one; removed at the end. An empty text stands for no file.
class MemoryFolder {
 public:
  MemoryFolder() {
    auto name =
        std::string(std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") + "/taugrid-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) fail("no folder in memory");
    path_ = name;
  }
  ~MemoryFolder() { std::filesystem::remove_all(path_); }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void put(const std::string& name, std::string_view text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::remove(file);  // a new inode, as readers know files by it
    if (!text.empty() && !std::ofstream(file, std::ios::binary).write(text.data(), std::ssize(text)))
      fail("no file in memory");
  }

 private:
  std::filesystem::path path_;
};

}  // namespace taugrid::fuzz
