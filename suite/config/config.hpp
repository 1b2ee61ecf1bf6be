// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The experiment file: typed, checked keys. Each asked key is remembered with the value in force, so
// that unknown keys are found and the whole configuration can be written down.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace taugrid::config {

struct State;

/// Bounds, both included.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

/// One table of the file; behaves as empty where the file lacks it. All readers throw InputError (one line:
/// file:line, key, what was expected) on a wrong type or value; with the prefix required_ also
/// where the key is missing. Copies are cheap and refer to the same configuration.
class Section {
 public:
  std::int64_t integer(const std::string& key, std::int64_t fallback, Range range = {});
  std::int64_t required_integer(const std::string& key, Range range = {});
  /// Finite; a TOML integer will do.
  double real(const std::string& key, double fallback, Range range = {});
  double required_real(const std::string& key, Range range = {});
  /// `allowed`: the possible values; empty: any text.
  std::string word(const std::string& key, const std::string& fallback,
                   const std::vector<std::string>& allowed = {});
  std::string required_word(const std::string& key, const std::vector<std::string>& allowed = {});
  /// A plain name, fit for a folder and for a unit's key: letters, digits, '.', '-' and single '_' inside. An
  /// empty fallback stays empty.
  std::string name(const std::string& key, const std::string& fallback);
  /// Plain names without duplicates.
  std::vector<std::string> required_names(const std::string& key);
  bool flag(const std::string& key, bool fallback);
  bool required_flag(const std::string& key);
  /// Without duplicates.
  std::vector<std::string> words(const std::string& key, const std::vector<std::string>& fallback,
                                 const std::vector<std::string>& allowed = {});
  std::vector<std::string> required_words(const std::string& key,
                                          const std::vector<std::string>& allowed = {});
  std::vector<double> reals(const std::string& key, const std::vector<double>& fallback, Range range = {});
  std::vector<double> required_reals(const std::string& key, Range range = {});
  /// Absolute; the file's own are relative to its folder. An empty fallback stays empty.
  std::filesystem::path path(const std::string& key, const std::filesystem::path& fallback);
  std::filesystem::path required_path(const std::string& key);

  Section sub(const std::string& name);
  /// Whether the file (or an override) sets the key or table.
  bool has(const std::string& key) const;
  /// Whether it is set to a number, or to a list: for keys that take either.
  bool is_number(const std::string& key) const;
  bool is_list(const std::string& key) const;
  /// The keys the file sets, in its order (for tables with free names).
  std::vector<std::string> keys() const;
  /// An InputError about this key: "FILE:LINE: key: problem". For checks that span several keys.
  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const;

 private:
  friend class Config;
  friend std::vector<double> alpha_grid(Section&, const std::string&, const std::vector<double>&, Range);
  Section(std::shared_ptr<State> state, std::string name)
      : state_(std::move(state)), name_(std::move(name)) {}

  std::shared_ptr<State> state_;
  std::string name_;  // dotted; empty: the root
};

/// Task-vector coefficients: a list, or { from = -2.0, to = 2.0, count = 9 } with both ends.
/// Throws InputError on an empty grid, a repeated or non-finite value, or one outside `range`.
std::vector<double> alpha_grid(Section& section, const std::string& key, const std::vector<double>& fallback,
                               Range range = {});

class Config {
 public:
  /// `overrides`: key=value with dotted keys; values in TOML syntax, or bare words, taken as text. Throws
  /// InputError if the file cannot be read or parsed.
  static Config load(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

  bool has(const std::string& section) const;
  Section section(const std::string& name);
  /// The keys outside all sections.
  Section root();

  /// Throws InputError if the file sets a key that nobody asked for; names the nearest known one.
  void finish() const;
  /// Canonical TOML of every asked key and its value. Loads again to the same configuration.
  std::string resolved() const;
  /// The folder of the file, absolute.
  std::filesystem::path base_folder() const;

 private:
  explicit Config(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// What differs between two configurations as text: lines "section.key: old -> new". Throws InputError if one
/// of them is not TOML.
std::vector<std::string> difference(const std::string& old_text, const std::string& new_text);

}  // namespace taugrid::config
