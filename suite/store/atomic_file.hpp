// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Files that are complete or absent: written under another name, flushed, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace taugrid::store {

/// Throws InputError: that `path` cannot be written, for this errno, and what to do about it.
[[noreturn]] void refuse_to_write(const std::filesystem::path& path, int error);
/// Writes all bytes at a place of an open file. Throws InputError, naming `path`.
void pwrite_all(int descriptor, const std::filesystem::path& path, std::uint64_t offset, const void* data,
                std::size_t bytes);

/// A file that grows at its end, and stays open: whoever removes its folder does not fail who writes.
class Journal {
 public:
  /// Makes the file where there is none. Throws InputError.
  explicit Journal(std::filesystem::path path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  /// Returns when the bytes are on the disk. Throws InputError.
  void append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// A file under construction. Until commit() it has a temporary name beside its final one, and the
/// destructor removes it.
class AtomicFile {
 public:
  /// Throws InputError if the folder is missing, read-only or full.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes. Throws InputError on a full disk.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Bytes at a place of the file, in any order. Throws as write() does.
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);

  /// Flushes file and folder to the disk and gives the file its name, replacing an older one.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// Writes the whole file or nothing. Throws InputError if it cannot be written.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

/// The same, with contents written piece by piece. What `fill` throws leaves no file behind.
void write_atomically(const std::filesystem::path& path, const std::function<void(AtomicFile&)>& fill);

/// A name under which a file is built: in the same folder, so that the rename is atomic. It ends in the host and a
/// random number: process numbers repeat among hosts and containers. A new one at each call.
std::filesystem::path temporary_name(const std::filesystem::path& path);
/// Whether a file has a name that temporary_name() may have given it.
bool is_temporary_name(const std::string& name);

/// Makes the folder and those above it, and flushes the parent of each new one: else a file that was flushed could be
/// gone with its folder after a power loss. Throws InputError.
void create_folders(const std::filesystem::path& folder);

/// Gives a finished temporary file or folder its name; flushes it, and the folder that it is in. Throws
/// InputError.
void publish(const std::filesystem::path& temporary, const std::filesystem::path& path);

}  // namespace taugrid::store
