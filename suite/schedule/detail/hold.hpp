// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The right of one job to a run folder. Two mechanisms: a lock of the system, which ends with its process but
// may be local to a host or missing on shared file systems; and an owner file, made by an exclusive link, in
// which the owner says every few seconds that it lives.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "suite/schedule/detail/owner.hpp"

namespace taugrid::schedule::detail {

struct HoldTimes {
  std::chrono::duration<double> heartbeat = std::chrono::seconds(5);
  /// An owner elsewhere that says nothing for so long is gone: more than a file server's hiccups.
  std::chrono::duration<double> silence = std::chrono::seconds(60);
};

class Hold {
 public:
  /// Throws InputError where the folder is in use, naming the user. Where the user is on another host and may
  /// be dead, waits for a sign of life, and takes the folder over if none comes. `lost` is called, by another
  /// thread, where another job took it over or the owner file is gone: this job must end then.
  Hold(std::filesystem::path run, HoldTimes times, std::function<void(const std::string&)> lost);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  enum class Lock { ours, others, none };
  Lock lock();
  bool claim();
  void replace(const Owner& stale);
  void look_at(Lock lock, const std::optional<Owner>& owner);
  bool is_dead(Lock lock, const Owner& owner) const;
  [[noreturn]] void refuse(const std::string& who, const std::string& more = "") const;
  void beat(const std::stop_token& token);

  std::filesystem::path run_, path_;
  HoldTimes times_;
  std::function<void(const std::string&)> lost_;
  Owner mine_;
  int lock_ = -1;
  bool warned_ = false, waits_ = false;
  std::optional<Owner> seen_;  // while we wait
  std::chrono::steady_clock::time_point since_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace taugrid::schedule::detail
