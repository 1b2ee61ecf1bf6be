// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A preloaded stand-in for an NFS client with cached attributes: a file under STALE_FOLDER that another
// process published less than STALE_SECONDS ago is not seen by open() and stat(), while readdir() lists it.
// With STALE_LOCKS=ENOLCK, no file can be locked; with STALE_LOCKS=local, every process gets each lock. With
// STALE_COUNT, each opening of a unit to read it adds a byte to that file. STALE_ONLY names the one subfolder
// that is seen late, such as scratch. With STALE_ERROR=ESTALE, EIO or EACCES, units cannot be opened for the
// first STALE_ERROR_SECONDS.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <set>
#include <string>

namespace {

std::mutex mutex;

/// What this process published: its own changes a client sees at once.
std::set<std::string>& published() {
  static auto* paths = new std::set<std::string>;
  return *paths;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool hidden(const char* path) {
  static const char* folder = getenv("STALE_FOLDER");
  static const char* seconds = getenv("STALE_SECONDS");
  if (folder == nullptr || seconds == nullptr || path == nullptr) return false;
  const auto length = strlen(folder);
  if (strncmp(path, folder, length) != 0) return false;
  bool shared = false;
  static const char* only = getenv("STALE_ONLY");
  for (const std::string part : {"units", "checkpoints", "scratch"}) {
    if (only != nullptr && part != only) continue;
    shared = shared || strncmp(path + length, ("/" + part + "/").c_str(), part.size() + 2) == 0;
  }
  if (!shared) return false;
  {
    const std::scoped_lock lock(mutex);
    if (published().count(path) != 0) return false;
  }
  struct stat status {};
  if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
    return false;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto age = static_cast<double>(now.tv_sec - status.st_ctim.tv_sec) +
                   1e-9 * static_cast<double>(now.tv_nsec - status.st_ctim.tv_nsec);
  return age < atof(seconds);
}

double monotonic() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The error that an opening to read this file meets; 0: none.
int error_of(const char* path) {
  static const char* error = getenv("STALE_ERROR");
  static const char* seconds = getenv("STALE_ERROR_SECONDS");
  if (error == nullptr || seconds == nullptr || path == nullptr) return 0;
  if (strstr(path, "/units/") == nullptr || strstr(path, ".safetensors") == nullptr) return 0;
  static const double begin = monotonic();  // of the first look
  if (monotonic() - begin > atof(seconds)) return 0;
  return strcmp(error, "ESTALE") == 0 ? ESTALE : strcmp(error, "EIO") == 0 ? EIO : EACCES;
}

void count(const char* path) {
  static const char* counter = getenv("STALE_COUNT");
  if (counter == nullptr || path == nullptr || strstr(path, "/units/") == nullptr) return;
  const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, counter, O_WRONLY | O_CREAT | O_APPEND, 0644));
  if (file < 0) return;
  [[maybe_unused]] const auto written = write(file, ".", 1);
  close(file);
}

}  // namespace

#define STAND_IN extern "C" __attribute__((visibility("default")))

STAND_IN int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if ((flags & O_CREAT) == 0 && hidden(path)) {
    errno = ENOENT;
    return -1;
  }
  if (const int error = (flags & O_CREAT) == 0 ? error_of(path) : 0; error != 0) {
    errno = error;
    return -1;
  }
  if (flags == (O_RDONLY | O_CLOEXEC)) count(path);
  if ((flags & O_CREAT) != 0) {
    const std::scoped_lock lock(mutex);
    published().insert(path);
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

STAND_IN FILE* fopen(const char* path, const char* mode) {
  if (hidden(path) && mode[0] == 'r') {
    errno = ENOENT;
    return nullptr;
  }
  if (const int error = mode[0] == 'r' ? error_of(path) : 0; error != 0) {
    errno = error;
    return nullptr;
  }
  count(path);
  return next<FILE*(const char*, const char*)>("fopen64")(path, mode);
}

STAND_IN FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

STAND_IN int stat(const char* path, struct stat* status) {
  if (hidden(path)) {
    errno = ENOENT;
    return -1;
  }
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}

STAND_IN int rename(const char* from, const char* to) {
  const auto result = static_cast<int>(syscall(SYS_rename, from, to));
  if (result == 0) {
    const std::scoped_lock lock(mutex);
    published().insert(to);
  }
  return result;
}

STAND_IN int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command == F_OFD_SETLK) {
    static const char* locks = getenv("STALE_LOCKS");
    if (locks != nullptr && strcmp(locks, "local") == 0) return 0;
    if (locks != nullptr) {
      errno = ENOLCK;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_fcntl, file, command, argument));
}
