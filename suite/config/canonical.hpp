// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One way to write each value, so that equal configurations are equal texts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace taugrid::config {

/// Values in TOML syntax. Reals in their shortest exact form, always recognisable as reals.
std::string canonical(std::int64_t value);
std::string canonical(double value);
std::string canonical(bool value);
std::string canonical(const std::string& value);
template <class T>
std::string canonical(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += (text.empty() ? "" : ", ") + canonical(value);
  }
  return "[" + text + "]";
}

/// A key as it stands in TOML: quoted where it must be.
std::string canonical_key(const std::string& key);

/// Dotted name of a key in a section.
std::string join(const std::string& section, const std::string& key);

/// The step of a dotted name that stands for an entry of an array of tables: "#1" for the first. No bare key begins so.
/// A section's parts of these names are its array's tables.
std::string entry_step(std::size_t index);
/// The index of such a step; none of another.
std::optional<std::size_t> entry_index(const std::string& step);

using Values = std::map<std::string, std::map<std::string, std::string>>;  // section, key, canonical value

/// Sections in alphabetical order, keys outside all sections first; entries of arrays as [[ARRAY]], in their order.
std::string document(const Values& values);

/// The entry of `known` with the fewest edits from `word`; empty if none is close.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace taugrid::config
