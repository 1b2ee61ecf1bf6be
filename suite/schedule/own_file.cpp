// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/own_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::schedule::detail {

int open_own(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  const int error = errno;
  struct stat status {};
  const bool opened = file >= 0 && ::fstat(file, &status) == 0;
  if (opened && S_ISREG(status.st_mode)) return file;
  if (file >= 0) ::close(file);
  if (opened || error == ELOOP)
    throw InputError(
        fmt::format("{} is {}, and the run would write through it; expected a file of its own: remove it",
                    path.string(), opened ? "no plain file" : "a link"));
  store::refuse_to_write(path, error);
}

}  // namespace taugrid::schedule::detail
