// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "suite/error.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::store {

[[noreturn]] void refuse_to_write(const std::filesystem::path& path, int error) {
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

namespace {

/// `write(done, left)` until all bytes are written: it may write fewer than are left, or be interrupted.
template <class Write>
void write_all(const std::filesystem::path& path, std::size_t bytes, const Write& write) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t written = write(done, bytes - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      refuse_to_write(path, errno);
    }
  }
}

/// Flushes a file or a folder; a file system that cannot flush folders is no error.
void flush(const std::filesystem::path& path, bool folder) {
  const int descriptor =
      ::open(path.c_str(), (folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_NOFOLLOW) | O_CLOEXEC);
  if (descriptor < 0) {
    refuse_to_write(path, errno);
  }
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0 && !(folder && (error == EINVAL || error == ENOTSUP))) {
    refuse_to_write(path, error);
  }
}

}  // namespace

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  constexpr std::size_t kept = 160;  // of the name: file systems allow 255 bytes
  constexpr std::size_t kept_of_host = 24;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  static std::random_device random;
  std::array<char, 17> tail{};
  std::snprintf(tail.data(), tail.size(), "%08x%08x", random(), random());
  host[kept_of_host] = '\0';
  std::string name = ".";
  name.append(path.filename().string(), 0, kept).append(".partial.").append(host.data());
  return path.parent_path() / name.append(".").append(tail.data());
}

bool is_temporary_name(const std::string& name) {
  // Open MPI tries a file system's locks on a file of its own, NAME.locktest.N.
  if (const auto end = name.rfind(".locktest."); end != std::string::npos)
    return is_temporary_name(name.substr(0, end));
  const auto dot = name.rfind('.');
  return name.starts_with('.') && name.find(".partial.") != std::string::npos && name.size() - dot == 17 &&
         name.find_first_not_of("0123456789abcdef", dot + 1) == std::string::npos;
}

void create_folders(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return;
  const auto parent = folder.has_parent_path() ? folder.parent_path() : ".";
  if (parent != folder) create_folders(parent);
  if (::mkdir(folder.c_str(), 0777) != 0 &&
      (errno != EEXIST || !std::filesystem::is_directory(folder, error))) {
    const int problem = errno;
    throw InputError("cannot create the folder " + folder.string() + ": " +
                     std::generic_category().message(problem));
  }
  flush(parent, true);
}

void publish(const std::filesystem::path& temporary, const std::filesystem::path& path) {
  flush(temporary, std::filesystem::is_directory(temporary));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    refuse_to_write(path, errno);
  }
  flush(path.has_parent_path() ? path.parent_path() : ".", true);
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  if (const auto kind = other_than_file(path_); !kind.empty())  // whose place a rename would take
    throw InputError("cannot write " + path_.string() + ": is " + kind + "; expected a file");
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    refuse_to_write(path_, errno);
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

void pwrite_all(int descriptor, const std::filesystem::path& path, std::uint64_t offset, const void* data,
                std::size_t bytes) {
  write_all(path, bytes, [&](std::size_t done, std::size_t left) {
    return ::pwrite(descriptor, static_cast<const char*>(data) + done, left,
                    static_cast<off_t>(offset + done));
  });
}

Journal::Journal(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse_to_write(path_, errno);
  flush(path_.has_parent_path() ? path_.parent_path() : ".", true);
}

Journal::~Journal() { ::close(descriptor_); }

void Journal::append(std::string_view bytes) {
  write_all(path_, bytes.size(), [&](std::size_t done, std::size_t left) {
    return ::write(descriptor_, bytes.data() + done, left);
  });
  if (::fsync(descriptor_) != 0) refuse_to_write(path_, errno);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  write_all(path_, bytes, [&](std::size_t done, std::size_t left) {
    return ::write(descriptor_, static_cast<const char*>(data) + done, left);
  });
}

void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  pwrite_all(descriptor_, path_, offset, data, bytes);
}

void AtomicFile::commit() {
  // Some file systems report a full disk only here.
  const int result = ::close(std::exchange(descriptor_, -1));
  if (result != 0) {
    refuse_to_write(path_, errno);
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
