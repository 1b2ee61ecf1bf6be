// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The three ways in which a run ends early, each with its exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace taugrid {

/// Exit codes of the program (a contract with batch scripts).
enum class ExitCode : int { done = 0, failed = 1, bad_input = 2, resumable = 75 };

/// The user's input is wrong. The message is one line: what, where, what was expected.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Stopped early at a safe point (signal or time limit); a rerun continues.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace taugrid
