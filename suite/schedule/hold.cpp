// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/hold.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <system_error>
#include <utility>

#include "suite/error.hpp"
#include "suite/schedule/detail/own_file.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"

namespace taugrid::schedule::detail {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::optional<Owner> read_owner(const fs::path& path) {
  const auto text = store::InputFile::text(path);
  if (!text) return std::nullopt;
  Owner unknown;
  unknown.who = "another job";
  unknown.token = "unknown";
  return parse_owner(*text).value_or(unknown);
}

/// Makes `path` with this text unless it is there; whether it was made. A link is exclusive on every file
/// system that has links, old NFS too; its answer may be lost there, so that the count of links has the last
/// word.
bool make_exclusively(const fs::path& path, const std::string& text) {
  const auto temporary = store::temporary_name(path);
  store::write_atomically(temporary, text);
  const int result = ::link(temporary.c_str(), path.c_str());
  const int error = errno;
  struct stat status {};
  const bool created = result == 0 || (::stat(temporary.c_str(), &status) == 0 && status.st_nlink == 2);
  ::unlink(temporary.c_str());
  if (created || error == EEXIST) return created;
  constexpr std::array without_links = {EPERM, EOPNOTSUPP, ENOSYS, EMLINK};
  if (std::find(without_links.begin(), without_links.end(), error) == without_links.end())
    store::refuse_to_write(path, error);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 && errno == EEXIST) return false;
  const bool whole =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int problem = errno;
  if (file >= 0) ::close(file);
  if (!whole) store::refuse_to_write(path, problem);
  return true;
}

}  // namespace

Hold::Hold(fs::path run, HoldTimes times, std::function<void(const std::string&)> lost)
    : run_(std::move(run)),
      path_(run_ / ".owner"),
      times_(times),
      lost_(std::move(lost)),
      mine_(this_process()),
      since_(std::chrono::steady_clock::now()) {
  try {
    while (true) {
      const auto held = lock();
      if (held != Lock::others && claim()) break;
      const auto owner = read_owner(path_);
      look_at(held, owner);
      if (held != Lock::others && owner && is_dead(held, *owner)) replace(*owner);
      std::this_thread::sleep_for(100ms);
    }
  } catch (...) {
    if (lock_ >= 0) ::close(lock_);
    throw;
  }
  // Says who, for people; whatever an earlier run left is overwritten.
  if (ftruncate(lock_, 0) != 0 || pwrite(lock_, mine_.who.data(), mine_.who.size(), 0) < 0) {
    const int error = errno;
    ::unlink(path_.c_str());
    ::close(lock_);
    store::refuse_to_write(run_ / ".lock", error);
  }
  thread_ = std::jthread([this](const std::stop_token& token) { beat(token); });
}

Hold::~Hold() {
  thread_ = {};
  try {
    if (const auto owner = read_owner(path_); owner && owner->token == mine_.token) ::unlink(path_.c_str());
  } catch (const std::exception&) {  // the next job waits for a sign of life, and finds none
  }
  ::close(lock_);
}

// Held by an open file, so that the system lets go of it however the process ends.
Hold::Lock Hold::lock() {
  const auto path = run_ / ".lock";
  if (lock_ < 0) lock_ = open_own(path);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  int result = 0;
  do {
    result = fcntl(lock_, F_OFD_SETLK, &whole);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Lock::ours;
  if (errno == EAGAIN || errno == EACCES) return Lock::others;
  if (!std::exchange(warned_, true)) {
    fmt::print(stderr, "# warning: this file system locks no files ({}): only {} keeps other jobs away\n",
               reason(errno), path_.string());
  }
  return Lock::none;
}

bool Hold::claim() { return make_exclusively(path_, text_of(mine_)); }

/// Refuses an owner that lives, and counts how long one elsewhere has said nothing.
void Hold::look_at(Lock lock, const std::optional<Owner>& owner) {
  const auto now = std::chrono::steady_clock::now();
  if (lock == Lock::others) {
    const auto who = store::InputFile::text(run_ / ".lock").value_or("another job");
    if (!owner || owner->machine == mine_.machine) refuse(who);
  } else if (owner && owner->machine == mine_.machine && owner->pids == mine_.pids &&
             !is_dead(lock, *owner)) {
    refuse(owner->who);  // without locks, on this host
  }
  if (!owner) return;
  if (!seen_ || seen_->token != owner->token) {
    seen_ = owner;
    since_ = now;
  }
  if (owner->beat != seen_->beat) refuse(owner->who);
  if (is_dead(lock, *owner)) return;
  if (!std::exchange(waits_, true)) {
    fmt::print(stderr, "# {} was last used by {}: waiting up to {:.0f} s for a sign of life\n", run_.string(),
               owner->who, times_.silence.count());
  }
  // A file server keeps the lock of a client that died for its lease, and that of a suspended job for good.
  if (lock == Lock::others && now - since_ > 2 * times_.silence)
    refuse(owner->who,
           fmt::format(", which has said nothing for {:.0f} s (suspended?)", 2 * times_.silence.count()));
}

bool Hold::is_dead(Lock lock, const Owner& owner) const {
  if (owner.machine == mine_.machine) {
    if (lock == Lock::ours) return true;  // one kernel, whose locks end with their processes
    if (owner.pids == mine_.pids) return start_of_process(owner.pid) != owner.started;
  }
  return seen_ && seen_->token == owner.token && seen_->beat == owner.beat &&
         std::chrono::steady_clock::now() - since_ > times_.silence;
}

// Among several that wait, the one that makes the link of this stale owner's name goes on.
void Hold::replace(const Owner& stale) {
  const auto turn = run_ / (".owner." + stale.token);
  if (!make_exclusively(turn, mine_.token)) {
    struct stat status {};
    const auto age = ::stat(turn.c_str(), &status) == 0 ? std::time(nullptr) - status.st_mtime : 0;
    if (static_cast<double>(age) > 2 * times_.silence.count())
      ::unlink(turn.c_str());  // it died at that moment
    return;
  }
  if (const auto now = read_owner(path_); now && now->token == stale.token) ::unlink(path_.c_str());
  ::unlink(turn.c_str());
  if (stale.machine != mine_.machine)
    fmt::print(stderr, "# {} is taken over from {}\n", run_.string(), stale.who);
}

void Hold::refuse(const std::string& who, const std::string& more) const {
  throw InputError(fmt::format("{} is in use by {}{}: wait for its end, or choose another --run-dir",
                               run_.string(), who, more));
}

void Hold::beat(const std::stop_token& token) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (true) {
    std::unique_lock guard(mutex);
    if (wake.wait_for(guard, token, times_.heartbeat, [&] { return token.stop_requested(); })) return;
    std::optional<Owner> owner;
    const int file = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    const int error = errno;
    if (file >= 0) {
      std::string text(text_of(mine_).size(), '\0');
      const auto got = ::pread(file, text.data(), text.size(), 0);
      if (got >= 0) owner = parse_owner(text.substr(0, static_cast<std::size_t>(got)));
      const bool ours = owner && owner->token == mine_.token;
      if (ours) {
        ++mine_.beat;
        const auto sign = text_of(mine_);
        [[maybe_unused]] const auto written = ::pwrite(file, sign.data(), sign.size(), 0);
      }
      ::close(file);
      if (got < 0 || ours) continue;  // what cannot be read now may be read later
    } else if (error != ENOENT) {
      continue;
    }
    lost_(owner ? fmt::format("{} was taken over by {}", run_.string(), owner->who)
                : fmt::format("{} is gone", path_.string()));
    return;
  }
}

}  // namespace taugrid::schedule::detail
