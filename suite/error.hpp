// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The three ways in which a run ends early, each with its exit code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace taugrid {

/// Exit codes of the program (a contract with batch scripts).
enum class ExitCode : int { done = 0, failed = 1, bad_input = 2, resumable = 75 };

/// Bytes of the UTF-8 letter that begins there; 0 where there is none, or one that is a control character.
inline std::size_t visible_letter(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  const unsigned first = byte(at);
  if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  std::uint32_t letter = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    letter = letter << 6 | (byte(at + i) & 0x3fU);
  }
  // Each letter has one form, the shortest; halves of pairs of UTF-16 and controls of ISO 6429 are none.
  const std::uint32_t least = length == 2 ? 0xa0 : length == 3 ? 0x800 : 0x10000;
  const bool is_half = letter >= 0xd800 && letter <= 0xdfff;
  return first >= 0xc0 && first < 0xf8 && letter >= least && letter <= 0x10ffff && !is_half ? length : 0;
}

/// A message as one line of at most 480 characters, so that what stands before it has room in 500. Names come
/// from files and command lines: control characters, and bytes that are no UTF-8, are shown as \xNN, whatever
/// they would have done to a terminal, and the longest words lose their middle first.
inline std::string as_line(const std::string& message) {
  constexpr const char* digits = "0123456789abcdef";
  constexpr std::size_t most = 480, word_least = 160;  // of a word, so that most paths stay whole
  constexpr std::string_view gap = "…";
  std::string text;
  for (std::size_t at = 0; at < message.size();) {
    if (const auto length = visible_letter(message, at); length > 0) {
      text.append(message, at, length);
      at += length;
    } else {
      const auto code = static_cast<unsigned char>(message[at++]);
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
