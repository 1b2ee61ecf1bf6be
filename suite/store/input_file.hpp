// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Files that are read with care: what may pass is tried again, what does not has its reason, and a file that
// is absent or wrong is told apart from one that could not be read.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "suite/error.hpp"

namespace taugrid::store {

/// A file could not be read, for a reason that says nothing about what is in it.
class ReadFailure : public std::runtime_error {
 public:
  ReadFailure(const std::filesystem::path& path, int error);
  ReadFailure(const std::filesystem::path& path, const std::string& problem);
  int error() const { return error_; }
  /// The message without the path.
  const std::string& problem() const { return problem_; }

 private:
  int error_;
  std::string problem_;
};

/// Another program has the file open and locked to write it, as HDF5 does: what is in it cannot be told now.
class FileInUse : public InputError {
 public:
  using InputError::InputError;
};

/// Throws FileInUse where another program holds a lock on the file, and names it where the system tells.
void require_not_in_use(const std::filesystem::path& path);

/// How long others' changes may stay unseen: NFS keeps attributes, and the absence of names, for 60 s by
/// default.
inline constexpr std::chrono::duration<double> attributes_cached = std::chrono::seconds(90);
/// How long an error that may pass (ESTALE, EIO, EMFILE, …) is tried again.
inline constexpr std::chrono::duration<double> errors_pass = std::chrono::seconds(10);

/// What stands there, where it is no file that can be read from begin to end: "a folder", "a FIFO", "a
/// device" or "a socket"; else empty.
std::string other_than_file(const std::filesystem::path& path);

/// An open file. Each member throws ReadFailure, after `errors_pass` where the error may pass; of what is no
/// file at once.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// The whole of a file of at most 64 MiB; nothing where there is none.
  static std::optional<std::string> text(const std::filesystem::path& path);

  std::uint64_t size() const;
  /// Up to `bytes` from `offset`; fewer at the file's end.
  std::string read(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// The text of an input that is there, of at most 64 MiB. Throws InputError, which says what was `expected`.
std::string input_text(const std::filesystem::path& path, const std::string& expected);

/// Whether there is a file. Throws ReadFailure where that cannot be told.
bool is_there(const std::filesystem::path& path);

/// Waits until there is a file, of which another host says that it has written it, at most `limit`; whether
/// it came. Opens its folder meanwhile, which makes an NFS client ask again.
bool wait_for(const std::filesystem::path& path, std::chrono::duration<double> limit = attributes_cached);

/// The same for a file that may be gone for good: it is waited for where its folder lists it.
bool wait_if_listed(const std::filesystem::path& path,
                    std::chrono::duration<double> limit = attributes_cached);

}  // namespace taugrid::store
