// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/mapped_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "suite/error.hpp"

namespace taugrid::store {
namespace {

namespace fs = std::filesystem;

struct Seen {
  dev_t device = 0;
  ino_t number = 0;
  off_t size = 0;
  timespec changed{};

  explicit Seen(const struct stat& status)
      : device(status.st_dev), number(status.st_ino), size(status.st_size), changed(status.st_mtim) {}
  bool same_file(const Seen& other) const { return device == other.device && number == other.number; }
  bool operator==(const Seen& other) const {
    return same_file(other) && size == other.size && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

struct Mapping {
  fs::path path;
  Seen seen;
  const void* pages;
};

/// Where a mapping lies, for the signal's handler, which may neither lock nor allocate.
struct Range {
  std::atomic<std::uintptr_t> begin{0}, end{0};  // 0: free
};
std::array<Range, 4096> ranges;
std::atomic<bool> page_lost{false};

std::mutex mutex;
std::list<Mapping> mappings;
std::map<fs::path, Seen> watched;

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const auto& range : ranges) {
    if (address < range.begin || address >= range.end) continue;
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    void* zeros = mmap(reinterpret_cast<void*>(address / page * page), page, PROT_READ,  // NOLINT: an address
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    page_lost = true;
    if (zeros != MAP_FAILED) return;
  }
  ::signal(signal, SIG_DFL);  // not ours: comes again, and ends the process
}

void catch_bus_errors() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(once);
}

Range* note(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (auto& range : ranges) {
    std::uintptr_t free = 0;
    if (!range.end.compare_exchange_strong(free, 1)) continue;  // taken, and empty as yet
    range.begin = begin;
    range.end = begin + bytes;
    return &range;
  }
  return nullptr;  // more files than anyone maps at once: without the handler's help
}

[[noreturn]] void refuse(const fs::path& path, const std::string& problem) {
  throw InputError(path.string() + ": " + problem);
}

constexpr const char* changed_since =
    "was changed while this run used it; its numbers would rest on both contents";

void require_as_watched(const fs::path& path, const struct stat& status) {
  const std::scoped_lock lock(mutex);
  const auto entry = watched.find(path);
  if (entry != watched.end() && !(entry->second == Seen(status))) refuse(path, changed_since);
}

}  // namespace

std::shared_ptr<const std::byte> map_file(const fs::path& path, std::uint64_t offset, std::size_t bytes) {
  catch_bus_errors();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  void* address = file < 0 || ::fstat(file, &status) != 0
                      ? MAP_FAILED
                      : ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, static_cast<off_t>(offset));
  const int error = errno;
  if (file >= 0) ::close(file);
  if (address == MAP_FAILED) refuse(path, "cannot be mapped: " + std::generic_category().message(error));
  auto* range = note(address, bytes);
  std::unique_lock lock(mutex);
  const auto mapping = mappings.insert(mappings.end(), {path, Seen(status), address});
  std::shared_ptr<const std::byte> pages(static_cast<const std::byte*>(address),
                                         [bytes, range, mapping](const std::byte* at) {
                                           ::munmap(const_cast<std::byte*>(at), bytes);
                                           if (range != nullptr) range->end = 0;
                                           const std::scoped_lock again(mutex);
                                           mappings.erase(mapping);
                                         });
  lock.unlock();
  require_as_watched(path, status);
  return pages;
}

bool is_current(const std::byte* pages) {
  const std::scoped_lock lock(mutex);
  const auto mapping = std::find_if(mappings.begin(), mappings.end(),
                                    [&](const Mapping& each) { return each.pages == pages; });
  struct stat status {};
  return mapping != mappings.end() && ::stat(mapping->path.c_str(), &status) == 0 &&
         mapping->seen == Seen(status);
}

void will_read(const void* begin, std::size_t bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(begin), from = at - at % page;
  if (bytes > 0) ::madvise(reinterpret_cast<void*>(from), at + bytes - from, MADV_WILLNEED);
}

void ReadAhead::announce(const std::function<void()>& ask) {
  struct rusage before {
  }, after{};
  ::getrusage(RUSAGE_SELF, &before);
  const bool waited = std::exchange(waited_, before.ru_majflt) != before.ru_majflt;
  if (waited) quiet_ = 0;
  if (!waited && left_out_ > 0) {
    --left_out_;
    return;
  }
  ask();
  ::getrusage(RUSAGE_SELF, &after);
  constexpr int most = 64;
  quiet_ = after.ru_inblock != before.ru_inblock ? 0 : std::clamp(2 * quiet_, 1, most);
  left_out_ = quiet_;
}

void watch(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;  // whoever reads it says why it cannot
  const std::scoped_lock lock(mutex);
  watched.insert_or_assign(path, Seen(status));
}

void require_as_watched(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) require_as_watched(path, status);
}

void require_unchanged() {
  const std::scoped_lock lock(mutex);
  for (const auto& mapping : mappings) {
    struct stat status {};
    if (::stat(mapping.path.c_str(), &status) != 0) continue;
    if (const Seen now(status); now.same_file(mapping.seen) && !(now == mapping.seen))
      refuse(mapping.path, changed_since);
  }
  if (page_lost)
    throw InputError(
        "a mapped input lost a page: its file was cut, or its disk fails; the numbers would rest on zeros");
}

}  // namespace taugrid::store
