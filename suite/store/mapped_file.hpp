// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Files that others may change while we use them. Mapped pages are the file's own: what is written there
// meanwhile is read, and what is cut off ends in SIGBUS. Both are found before a number that rests on them is
// kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

namespace taugrid::store {

/// `bytes` of the file from `offset`, which is a multiple of the page size, for as long as anyone holds them.
/// A page that is gone reads as zeros, and require_unchanged() says so. Throws InputError where the file
/// cannot be mapped or is another one than was watched.
std::shared_ptr<const std::byte> map_file(const std::filesystem::path& path, std::uint64_t offset,
                                          std::size_t bytes);

/// Whether the file that these pages were mapped of, from its begin, still has its name, size and time of
/// change.
bool is_current(const std::byte* pages);

/// Asks the system to read mapped memory from the disk while we go on; a hint, which never fails.
void will_read(const void* begin, std::size_t bytes) noexcept;

/// Asks the disk only as long as it has anything to read: walking over pages that memory has takes time too.
class ReadAhead {
 public:
  /// Calls ask(), which calls will_read(), or leaves it out, because lately nothing was read for it and no
  /// page was waited for.
  void announce(const std::function<void()>& ask);

 private:
  long waited_ = -1;
  int quiet_ = 0, left_out_ = 0;
};

/// Makes the file an input from now on: map_file() and require_as_watched() ask that it is the same one, with
/// the same size and time of change. To be called before it is read for its digest.
void watch(const std::filesystem::path& path);
/// Throws InputError where a watched file was replaced, rewritten or cut.
void require_as_watched(const std::filesystem::path& path);

/// Throws InputError, naming the file, where one that is mapped now was rewritten or cut since, or a page of
/// it could not be read. A mapped file that was removed or replaced lives on, unchanged.
void require_unchanged();

}  // namespace taugrid::store
