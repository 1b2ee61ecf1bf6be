// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/input_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "suite/error.hpp"

namespace taugrid::store {
namespace {

using namespace std::chrono_literals;

bool may_pass(int error) {
  constexpr std::array passing = {EAGAIN, EBUSY, EIO, EMFILE, ENFILE, ENOMEM, ESTALE, ETIMEDOUT};
  return std::find(passing.begin(), passing.end(), error) != passing.end();
}

/// Calls until the result is not negative; what may pass, again for a while. Negative: -errno.
template <class Call>
auto insist(const Call& call) {
  const auto end = std::chrono::steady_clock::now() + errors_pass;
  while (true) {
    const auto result = call();
    if (result >= 0) return result;
    const int error = errno;
    if (error == EINTR) continue;
    if (!may_pass(error) || std::chrono::steady_clock::now() > end) return decltype(result)(-error);
    std::this_thread::sleep_for(100ms);
  }
}

constexpr std::uint64_t most_text = std::uint64_t{64} << 20;

/// Empty: it is a file.
std::string named_kind(mode_t mode) {
  if (S_ISREG(mode)) return "";
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

ReadFailure::ReadFailure(const std::filesystem::path& path, int error)
    : ReadFailure(path, "cannot be read: " + std::generic_category().message(error)) {
  error_ = error;
}

ReadFailure::ReadFailure(const std::filesystem::path& path, const std::string& problem)
    : std::runtime_error(path.string() + ": " + problem), error_(0), problem_(problem) {}

std::string other_than_file(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? named_kind(status.st_mode) : "";
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = insist([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor_ < 0) throw ReadFailure(path_, -descriptor_);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || S_ISREG(status.st_mode)) return;
  ::close(descriptor_);
  throw ReadFailure(path_, "is " + named_kind(status.st_mode) + "; expected a file");
}

InputFile::~InputFile() { ::close(descriptor_); }

std::uint64_t InputFile::size() const {
  struct stat status {};
  const int result = insist([&] { return ::fstat(descriptor_, &status); });
  if (result < 0) throw ReadFailure(path_, -result);
  return static_cast<std::uint64_t>(status.st_size);
}

std::string InputFile::read(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  std::uint64_t done = 0;
  while (done < bytes) {
    const auto got = insist([&] {
      return ::pread(descriptor_, text.data() + done, bytes - done, static_cast<off_t>(offset + done));
    });
    if (got < 0) throw ReadFailure(path_, static_cast<int>(-got));
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  text.resize(done);
  return text;
}

std::optional<std::string> InputFile::text(const std::filesystem::path& path) {
  try {
    const InputFile file(path);
    const auto bytes = file.size();
    if (bytes > most_text) throw ReadFailure(path, "has more than 64 MiB");
    return file.read(0, bytes);
  } catch (const ReadFailure& failure) {
    if (failure.error() == ENOENT) return std::nullopt;
    throw;
  }
}

std::string input_text(const std::filesystem::path& path, const std::string& expected) {
  const auto refuse = [&](const std::string& problem) {
    throw InputError(path.string() + ": " + problem + "; expected " + expected);
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    refuse("cannot be read: " + (error ? error.message() : "is no file"));
  try {
    if (const auto text = InputFile::text(path)) return *text;
  } catch (const ReadFailure& failure) {
    refuse(failure.problem());
  }
  refuse("cannot be read: it is gone");
  return {};
}

namespace {

/// "process 17 (python3)" of /proc/locks, whose lines are "1: FLOCK ADVISORY WRITE 17 fe:01:4711 0 EOF"; of
/// another host, or where that file tells nothing, "another program".
std::string owner_of_lock(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return "another program";
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access;
    unsigned device = 0, part = 0;
    char colon = 0;
    long pid = 0;
    ino_t inode = 0;
    words >> number >> kind >> advisory >> access >> pid >> std::hex >> device >> colon >> part >> colon;
    words >> std::dec >> inode;
    const bool ours =
        device == major(status.st_dev) && part == minor(status.st_dev) && inode == status.st_ino;
    if (!words || kind != "FLOCK" || !ours || pid <= 0) continue;
    const auto process = "process " + std::to_string(pid);
    std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    return std::getline(comm, name) ? process + " (" + name + ")" : process;
  }
  return "another program";
}

}  // namespace

void require_not_in_use(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return;
  const bool in_use = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const auto owner = in_use ? owner_of_lock(descriptor) : std::string();
  ::close(descriptor);  // lets go of the lock
  if (in_use)
    throw FileInUse(path.string() + ": " + owner +
                    " holds it open to write; expected a file that is closed: wait for its end");
}

bool is_there(const std::filesystem::path& path) {
  struct stat status {};
  const int result = insist([&] { return ::stat(path.c_str(), &status); });
  if (result < 0 && result != -ENOENT && result != -ENOTDIR) throw ReadFailure(path, -result);
  return result == 0;
}

bool wait_for(const std::filesystem::path& path, std::chrono::duration<double> limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (auto pause = 10ms; !is_there(path); pause = std::min<std::chrono::milliseconds>(2 * pause, 1s)) {
    if (std::chrono::steady_clock::now() > end) return false;
    if (DIR* folder = ::opendir(path.parent_path().c_str()); folder != nullptr) ::closedir(folder);
    std::this_thread::sleep_for(pause);
  }
  return true;
}

bool wait_if_listed(const std::filesystem::path& path, std::chrono::duration<double> limit) {
  if (is_there(path)) return true;
  std::error_code error;  // a folder that is gone lists nothing
  for (std::filesystem::directory_iterator at(path.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().filename() == path.filename()) return wait_for(path, limit);
  }
  return false;
}

}  // namespace taugrid::store
