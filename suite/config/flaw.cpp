// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "suite/config/state.hpp"

namespace taugrid::config {

namespace {

/// Where the string that opens at `begin` ends: one past its last quote, or the end of the text.
std::size_t past_string(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool long_form = text.substr(begin, 3) == three;
  for (std::size_t i = begin + (long_form ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (long_form && text.substr(i, 3) == three) {
      i += 3;
      for (int more = 0; more < 2 && i < text.size() && text[i] == quote; ++more) ++i;  // its last characters
      return i;
    } else if (!long_form && (text[i] == quote || text[i] == '\n')) {
      return i + 1;
    }
  }
  return text.size();
}

}  // namespace

std::optional<Flaw> flaw(std::string_view text) {
  constexpr std::string_view mark = "\xef\xbb\xbf";  // of UTF-8, at the beginning
  constexpr std::string_view ends = "=,[]{}\n";
  std::size_t line = 1, steps = 1;
  for (std::size_t i = text.starts_with(mark) ? mark.size() : 0; i < text.size();) {
    std::size_t next = i + 1;
    if (text[i] == '"' || text[i] == '\'') {
      next = past_string(text, i);
    } else if (text[i] == '#') {
      next = std::min(text.find('\n', i), text.size());
    } else if (static_cast<unsigned char>(text[i]) >= 0x80) {
      return Flaw{line, "a letter beyond ASCII stands outside quotes; expected it in a text or a comment"};
    } else if (text[i] == '.' && ++steps > step_limit) {
      return Flaw{line, "expected a key of at most " + std::to_string(step_limit) + " dotted steps"};
    } else if (ends.find(text[i]) != std::string_view::npos) {
      steps = 1;
    }
    for (; i < next && i < text.size(); ++i) line += text[i] == '\n' ? 1 : 0;
  }
  return std::nullopt;
}

}  // namespace taugrid::config
