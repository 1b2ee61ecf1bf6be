// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What Config and its Sections share: the parsed file, over those that it extends, and what was asked of it.
#pragma once

#include <toml++/toml.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "suite/config/canonical.hpp"
#include "suite/config/meaning.hpp"
#include "suite/config/setting.hpp"

namespace taugrid::config {

struct State {
  std::vector<std::filesystem::path> files;  // absolute: the experiment file, its base, that one's base, …
  toml::table table;
  std::map<std::string, std::string> overridden;  // dotted key, the override as given
  Values asked;
  std::set<std::string> used;                // dotted keys with no line of their own in the resolved text
  std::set<std::string> sections;            // every section asked for, whether or not it is there
  bool describing = false;                   // of no file, see Config::describing()
  std::map<std::string, std::size_t> lines;  // dotted keys, where another language's text said them
  bool by_tensor = false;                    // whether numbers may be settings
  std::map<std::string, std::map<std::string, Setting>> settings;  // section, key
  std::vector<SectionEntry> reference;

  /// Reads the experiment file, and where it says `extends = "BASE.toml"` what that file says beside it:
  /// tables are merged key by key, and of all else the file that extends has the last word. Throws
  /// InputError, of one line that names both files, where a base cannot be read, leads back to a file that
  /// extends it, or has a section where the other file has a key.
  void read(const std::filesystem::path& path);
  /// The file that says the node; of a null node, or of an override's, the experiment file.
  const std::filesystem::path& file_of(const toml::node* node) const;
  /// The node at a dotted name; null if the file lacks it. Steps through tables, and by entry_step() into
  /// arrays.
  const toml::node* find(const std::string& name) const;
  /// "FILE:LINE", or the override that set it.
  std::string where(const std::string& name, const toml::node* node) const;
  /// The section's entry in the reference, made where it is new.
  SectionEntry& describe(const std::string& section, const Meaning& meaning);
  /// While keys are described, adds the key to its section's entry. `fallback`: empty for required keys.
  void describe(const std::string& section, const std::string& key, const Meaning& meaning,
                const std::string& values, const std::string& fallback);
};

/// The steps of a dotted name.
std::vector<std::string> steps(const std::string& name);

/// What the parser is not to be given: letters beyond ASCII outside texts and comments, which are no TOML,
/// and of which toml++ 3.3 assumes what is not so; and dotted keys of more steps than any experiment needs,
/// each a table in a table: these end recursively, and fifty thousand would be more than the stack holds.
struct Flaw {
  std::size_t line;
  std::string problem;
};
constexpr std::size_t step_limit = 16;
std::optional<Flaw> flaw(std::string_view text);

/// The key, outside all sections, that names a file's base.
inline constexpr std::string_view extends_key = "extends";

/// The table of a text; `name` stands in messages and as its nodes' source. Throws InputError, with the line,
/// if it is not TOML.
toml::table parse_text(const std::string& text, const std::string& name);

/// A node's value as canonical TOML, whatever it is.
std::string canonical(const toml::node& node);

}  // namespace taugrid::config
