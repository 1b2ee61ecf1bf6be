// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The three ways in which a run ends early, each with its exit code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace taugrid {

/// Exit codes of the program (a contract with batch scripts).
enum class ExitCode : int { done = 0, failed = 1, bad_input = 2, resumable = 75 };

/// A message as one line of at most 480 characters, so that what stands before it has room in 500. Names come
/// from files and command lines: control characters are shown as \xNN, whatever they would have done to a
/// terminal, and the longest words lose their middle first.
inline std::string as_line(const std::string& message) {
  constexpr const char* digits = "0123456789abcdef";
  constexpr std::size_t most = 480, word_least = 160;  // of a word, so that most paths stay whole
  constexpr std::string_view gap = "…";
  std::string text;
  for (const char c : message) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= ' ' && code != 0x7f) {
      text += c;
    } else {
      text += std::string("\\x") + digits[code >> 4] + digits[code & 15];
    }
  }
  const auto within_letter = [&](std::size_t at) { return (text[at] & 0xc0) == 0x80; };
  for (int round = 0; text.size() > most; ++round) {
    std::size_t begin = 0, length = 0;  // of the longest word
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find(' ', at), text.size());
      if (end - at > length) begin = at, length = end - at;
      at = end + 1;
    }
    if (length <= word_least + gap.size() || round > 8)
      begin = 0, length = text.size();  // many words: the line's middle
    const auto excess = text.size() - most + gap.size();
    const auto kept = std::max(word_least, length - std::min(length, excess));
    auto first = begin + kept * 2 / 3, last = begin + length - kept / 3;
    while (first > begin && within_letter(first)) --first;
    while (last < text.size() && within_letter(last)) ++last;
    text.replace(first, last - first, gap);
  }
  return text;
}

/// The user's input is wrong. The message is one line: what, where, what was expected.
class InputError : public std::runtime_error {
 public:
  explicit InputError(const std::string& message) : std::runtime_error(as_line(message)) {}
};

/// Stopped early at a safe point (signal or time limit); a rerun continues.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace taugrid
