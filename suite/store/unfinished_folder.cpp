// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/unfinished_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::store {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = ".lock";
constexpr const char* begun_name = ".begun";

[[noreturn]] void refuse(const fs::path& path, const std::string& problem) {
  throw InputError(path.string() + ": " + problem);
}

}  // namespace

fs::path UnfinishedFolder::place(const fs::path& final_path) {
  constexpr std::size_t kept = 200;  // of the name: file systems allow 255 bytes
  std::string name = ".";
  name.append(final_path.filename().string(), 0, kept).append(".partial");
  return final_path.parent_path() / name;
}

UnfinishedFolder::UnfinishedFolder(fs::path final_path, std::string what)
    : final_path_(std::move(final_path)), path_(place(final_path_)), what_(std::move(what)) {
  std::error_code error;
  for (auto parent = path_.parent_path(); !parent.empty() && !fs::exists(parent, error);
       parent = parent.parent_path())
    first_made_ = parent;
  const auto there = fs::symlink_status(path_, error);
  if (fs::exists(there)) {
    const bool is_ours =
        fs::is_directory(there) && fs::is_regular_file(fs::symlink_status(path_ / lock_name, error));
    if (!is_ours && !(fs::is_directory(there) && fs::is_empty(path_, error)))
      refuse(path_, "is in the way of the folder that is built there; expected nothing of this name");
  } else {
    create_folders(path_);
  }
  lock_ = ::open((path_ / lock_name).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock_ < 0) refuse(path_, "cannot be written to: " + std::generic_category().message(errno));
  // A file system that has no locks is no error.
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(lock_, -1));
    refuse(final_path_, "is being made by another process, which has locked " + path_.string() +
                            "; wait for it, or choose another folder");
  }
  goes_on_ = InputFile::text(path_ / begun_name).value_or("") == what_;
  is_begun_ = goes_on_;
  if (goes_on_) return;
  for (const auto& entry : fs::directory_iterator(path_, error))
    if (entry.path().filename() != lock_name && !error) fs::remove_all(entry.path(), error);
  if (error) refuse(path_, "is left from an earlier start, and cannot be removed: " + error.message());
}

UnfinishedFolder::~UnfinishedFolder() {
  if (!is_begun_) discard();
  ::close(lock_);
}

void UnfinishedFolder::begin() {
  write_atomically(path_ / begun_name, what_);
  is_begun_ = true;
}

void UnfinishedFolder::discard() noexcept {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  // Folders that were made for it go as well, as long as nobody else put anything there.
  for (auto parent = path_.parent_path();
       !first_made_.empty() && fs::remove(parent, ignored) && parent != first_made_;)
    parent = parent.parent_path();
  path_.clear();
}

void UnfinishedFolder::commit() {
  fs::remove(path_ / begun_name);
  publish(path_, final_path_);
  path_.clear();
  std::error_code ignored;  // a file more is no harm
  fs::remove(final_path_ / lock_name, ignored);
}

}  // namespace taugrid::store
