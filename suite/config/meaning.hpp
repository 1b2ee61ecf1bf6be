// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What keys and sections are for: said where they are read, listed by `taugrid keys`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace taugrid::config {

/// Words for the reference in place of what the code cannot know there, since it follows from other keys or
/// from the data.
struct InWords {
  std::string_view fallback = {};  ///< instead of the fallback's value
  std::string_view values = {};    ///< instead of type and range
};

/// A plain sentence without its full stop. One that says nothing does not compile, so that no key is read
/// without it.
class Meaning {
 public:
  consteval Meaning(const char* sentence, InWords words = {}) : text(sentence), in_words(words) {
    if (text.size() < 12 || text.find(' ') == std::string_view::npos || text.back() == '.')
      throw "say in a plain sentence, without its full stop, what the key is for";
  }

  std::string_view text;
  InWords in_words;
};

/// A key as the code reads it.
struct KeyEntry {
  std::string key, values, meaning;
  std::string fallback;  ///< as TOML, or in words; "required" where there is none
};

/// A section and its keys, in the order in which the code asks for them.
struct SectionEntry {
  std::string name, meaning;
  std::string owner = {};  ///< whose it is, where several have a section of this name
  bool optional = false;   ///< its presence asks for something
  std::string again = {};  ///< the section whose keys it may set again for one part; empty: none
  std::vector<KeyEntry> keys = {};
};

}  // namespace taugrid::config
