// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "suite/error.hpp"

namespace taugrid::store {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, int error) {
  std::string advice;
  if (error == ENOSPC || error == EDQUOT) {
    advice = "; free space or choose another folder";
  } else if (error == EFBIG) {
    advice = "; raise the limit on files' size (ulimit -f)";
  } else if (error == EACCES || error == EPERM || error == EROFS) {
    advice = "; choose a folder that you may write to";
  } else if (error == ENOENT) {
    advice = "; its folder does not exist";
  }
  throw InputError("cannot write " + path.string() + ": " + std::generic_category().message(error) + advice);
}

/// Flushes a file or a folder; a file system that cannot flush folders is no error.
void flush(const std::filesystem::path& path, bool folder) {
  const int descriptor = ::open(path.c_str(), (folder ? O_RDONLY | O_DIRECTORY : O_RDWR) | O_CLOEXEC);
  if (descriptor < 0) {
    refuse(path, errno);
  }
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0 && !(folder && (error == EINVAL || error == ENOTSUP))) {
    refuse(path, error);
  }
}

}  // namespace

std::filesystem::path temporary_name(const std::filesystem::path& path, bool shared) {
  std::filesystem::path name = ".";
  name += path.filename();
  name += ".partial";
  if (!shared) {
    name += ".";
    name += std::to_string(::getpid());
  }
  return path.parent_path() / name;
}

void publish(const std::filesystem::path& temporary, const std::filesystem::path& path) {
  flush(temporary, false);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    refuse(path, errno);
  }
  flush(path.has_parent_path() ? path.parent_path() : ".", true);
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    refuse(path_, errno);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      refuse(path_, errno);
    }
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  // Some file systems report a full disk only here.
  const int result = ::close(std::exchange(descriptor_, -1));
  if (result != 0) {
    refuse(path_, errno);
  }
  publish(temporary_, path_);
  temporary_.clear();
}

void write_atomically(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_atomically(const std::filesystem::path& path, const std::function<void(AtomicFile&)>& fill) {
  AtomicFile file(path);
  fill(file);
  file.commit();
}

}  // namespace taugrid::store
