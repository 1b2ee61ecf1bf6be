// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What this rank is doing now, in words, for the message that is printed if it fails, hangs or dies.
#pragma once

#include <string>
#include <string_view>

namespace taugrid::comm {

/// Publishes `what` as this rank's current operation for as long as it lives; nests ("unit ntk/standard:
/// all-reduce of the gradient"). Other ranks of the host can read it, also after this one was killed.
/// Only the main thread may use it: one writer a rank.
class Doing {
 public:
  explicit Doing(std::string_view what);
  ~Doing();
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  std::size_t length_before_;
  int exceptions_before_;
};

/// A Doing in which this rank waits for other ranks: it is not the one that holds up a stop.
class Waiting {
 public:
  explicit Waiting(std::string_view what);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Doing doing_;
};

/// What this rank is doing; after an exception, what it was doing where the exception was thrown.
std::string current_operation();

}  // namespace taugrid::comm
