// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/unfinished_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

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

UnfinishedFolder::UnfinishedFolder(Named, fs::path final_path, std::string what)
    : final_path_(std::move(final_path)), path_(place(final_path_)), what_(std::move(what)) {}

// What throws from here on leaves an object that is taken down.
UnfinishedFolder::UnfinishedFolder(fs::path final_path, std::string what)
    : UnfinishedFolder(Named{}, std::move(final_path), std::move(what)) {
  open();
}

void UnfinishedFolder::open() {
  std::error_code error;
  for (auto parent = path_.parent_path(); !parent.empty() && !fs::exists(parent, error);
       parent = parent.parent_path())
    first_made_ = parent;
  if (fs::exists(fs::symlink_status(path_, error))) {
    struct stat status {};
    const bool is_folder = ::lstat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    const bool is_ours = is_folder && status.st_uid == ::geteuid() &&
                         fs::is_regular_file(fs::symlink_status(path_ / lock_name, error));
    if (!is_ours && !(is_folder && fs::is_empty(path_, error)))
      refuse(path_, "is in the way of the folder that is built there; expected nothing of this name");
  } else {
    create_folders(path_);
    is_made_here_ = true;
  }
  const int lock = ::open((path_ / lock_name).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock < 0) refuse(path_, "cannot be written to: " + std::generic_category().message(errno));
  // A file system that has no locks is no error.
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock);
    refuse(final_path_, "is being made by another process, which has locked " + path_.string() +
                            "; wait for it, or choose another folder");
  }
  lock_ = lock;
  is_begun_ = true;  // as long as it is not known otherwise, what is there stays
  goes_on_ = InputFile::text(path_ / begun_name).value_or("") == what_;
  if (!goes_on_) return start_anew();
  // What an earlier start was writing when it was killed.
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path_))
    if (is_temporary_name(entry.path().filename().string())) leftovers.push_back(entry.path());
  std::error_code unneeded;
  for (const auto& each : leftovers) fs::remove(each, unneeded);
}

void UnfinishedFolder::start_anew() {
  goes_on_ = is_begun_ = false;
  std::error_code error;
  fs::remove(path_ / begun_name, error);  // before what it says is there
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename() != lock_name) fs::remove_all(entry->path(), error);
  if (error) refuse(path_, "is left from an earlier start, and cannot be removed: " + error.message());
}

UnfinishedFolder::~UnfinishedFolder() {
  if (lock_ < 0) {
    if (is_made_here_) ::rmdir(path_.c_str());
    return;
  }
  if (!is_begun_) discard();
  ::close(lock_);
}

void UnfinishedFolder::begin() {
  write_atomically(path_ / begun_name, what_);
  is_begun_ = true;
}

void UnfinishedFolder::remove(const fs::path& path, const fs::path& first_made) noexcept try {
  std::error_code ignored;
  fs::remove(path / begun_name, ignored);
  std::vector<fs::path> inside;
  for (fs::directory_iterator entry(path, ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (entry->path().filename() != lock_name) inside.push_back(entry->path());
  for (const auto& each : inside) fs::remove_all(each, ignored);
  fs::remove_all(path, ignored);  // the lock goes last: what a kill leaves here is known as ours
  for (auto parent = path.parent_path();
       !first_made.empty() && fs::remove(parent, ignored) && parent != first_made;)
    parent = parent.parent_path();
} catch (const std::bad_alloc&) {  // what is left is known as ours
}

void UnfinishedFolder::discard() noexcept {
  if (!path_.empty()) remove(path_, first_made_);
  path_.clear();
}

void UnfinishedFolder::end() {
  std::error_code ignored;
  fs::remove(path_ / begun_name, ignored);
}

void UnfinishedFolder::commit() {
  end();
  publish(path_, final_path_);
  path_.clear();
  is_begun_ = true;         // nothing is to be removed
  std::error_code ignored;  // a file more is no harm
  fs::remove(final_path_ / lock_name, ignored);
}

}  // namespace taugrid::store
