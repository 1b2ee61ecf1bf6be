// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The three ways in which a run ends early, each with its exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace taugrid {

/// Exit codes of the program (a contract with batch scripts).
enum class ExitCode : int { done = 0, failed = 1, bad_input = 2, resumable = 75 };

/// The user's input is wrong. The message is one line: what, where, what was expected. Names come from files
/// and command lines, so that control characters are shown as \xNN, whatever they would have done to a
/// terminal.
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& message) : std::runtime_error(printable(message)) {}

 private:
  static std::string printable(const std::string& message) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (const char c : message) {
      const auto code = static_cast<unsigned char>(c);
      if (code >= ' ' && code != 0x7f) {
        text += c;
      } else {
        text += std::string("\\x") + digits[code >> 4] + digits[code & 15];
      }
    }
    return text;
  }
};

/// Stopped early at a safe point (signal or time limit); a rerun continues.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace taugrid
