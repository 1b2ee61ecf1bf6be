// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/operation.hpp"

#include <exception>
#include <mutex>

#include "suite/comm/detail/board.hpp"

namespace taugrid::comm {

namespace {

/// Where the main thread's last exception came from: by the time it is caught, the slot has been cut back. Threads
/// that end the program read it beside the main thread.
class FailedOperation {
 public:
  void forget() {
    const std::scoped_lock lock(mutex_);
    text_.clear();
  }
  /// The innermost operation keeps its name.
  void remember(const std::string& operation) {
    const std::scoped_lock lock(mutex_);
    if (text_.empty()) text_ = operation;
  }
  std::string text() {
    const std::scoped_lock lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

FailedOperation& failed_operation() {
  static FailedOperation last;
  return last;
}

}  // namespace

Doing::Doing(std::string_view what)
    : length_before_(detail::my_slot().length.load()), exceptions_before_(std::uncaught_exceptions()) {
  if (exceptions_before_ == 0) {
    failed_operation().forget();
  }
  auto& slot = detail::my_slot();
  const auto before = static_cast<std::uint32_t>(length_before_);
  if (before == 0) {
    slot.write(0, what);
  } else {
    slot.write(before, std::string(": ").append(what));
  }
}

Doing::~Doing() {
  auto& slot = detail::my_slot();
  if (std::uncaught_exceptions() > exceptions_before_) {
    failed_operation().remember(slot.operation());
  }
  slot.length.store(static_cast<std::uint32_t>(length_before_), std::memory_order_release);
}

Waiting::Waiting(std::string_view what) : doing_(what) { ++detail::my_slot().waits; }
Waiting::~Waiting() { --detail::my_slot().waits; }

std::string current_operation() {
  const auto failed = failed_operation().text();
  return failed.empty() ? detail::my_slot().operation() : failed;
}

}  // namespace taugrid::comm
