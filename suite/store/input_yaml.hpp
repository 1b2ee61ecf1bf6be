// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace taugrid::store {

/// A value of a YAML document, as its text: what a scalar means (a number, a flag) is its reader's to say.
struct Yaml {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::size_t line = 0;                ///< from 1 on
  std::string text = {};               ///< of a scalar
  bool quoted = false;                 ///< a text, whatever stands in it
  std::vector<std::string> keys = {};  ///< of a map, in order, each once
  std::vector<Yaml> values = {};       ///< of a map or a list

  /// Null where a map lacks the key.
  const Yaml* find(const std::string& key) const;
  /// What it is, for a message: "a list", …
  std::string kind_name() const;
};

/// The one document of an input file of at most 1 MiB, 32 deep and of ten thousand values, those counted
/// again that aliases repeat. Throws InputError, with the line and what was `expected`; also of tags, of a
/// key that stands twice, and of merged keys (<<).
Yaml input_yaml(const std::filesystem::path& path, const std::string& expected);

/// The same of a text, which says `where` it stands.
Yaml yaml_of(const std::string& text, const std::string& where, const std::string& expected);

}  // namespace taugrid::store
