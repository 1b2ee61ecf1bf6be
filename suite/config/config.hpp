// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The experiment file: typed, checked keys. Each asked key is remembered with the value in force, so
// that unknown keys are found and the whole configuration can be written down; and each says what it is for,
// so that `taugrid keys` can list them all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suite/config/meaning.hpp"
#include "suite/config/setting.hpp"

namespace taugrid::config {

struct State;

/// Bounds, both included unless `above` leaves the lower one out, which is then finite and below 1000.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above = false;
};
/// The range of a share that cannot be 0.
inline constexpr Range some_share = {0, 1, true};

/// One table of the file; behaves as empty where the file lacks it. All readers throw InputError (one line:
/// file:line, key, what was expected) on a wrong type or value; with the prefix required_ also
/// where the key is missing. Copies are cheap and refer to the same configuration.
class Section {
 public:
  /// The keys that were read until now, with their values as they stand in TOML.
  std::map<std::string, std::string> values() const;
  std::int64_t integer(const std::string& key, const Meaning& meaning, std::int64_t fallback,
                       Range range = {});
  std::int64_t required_integer(const std::string& key, const Meaning& meaning, Range range = {});
  /// Finite; a TOML integer will do.
  double real(const std::string& key, const Meaning& meaning, double fallback, Range range = {});
  double required_real(const std::string& key, const Meaning& meaning, Range range = {});
  /// What real() was asked for in this section and the file sets, by key. Numbers differ between tensors only
  /// where Config::let_numbers_differ() allows it, and real() has returned their first value.
  const std::map<std::string, Setting>& settings() const;
  /// `allowed`: the possible values; empty: any text.
  std::string word(const std::string& key, const Meaning& meaning, const std::string& fallback,
                   const std::vector<std::string>& allowed = {});
  std::string required_word(const std::string& key, const Meaning& meaning,
                            const std::vector<std::string>& allowed = {});
  /// A plain name, fit for a folder and for a unit's key: letters, digits, '.', '-' and single '_' inside. An
  /// empty fallback stays empty.
  std::string name(const std::string& key, const Meaning& meaning, const std::string& fallback);
  /// Plain names without duplicates.
  std::vector<std::string> required_names(const std::string& key, const Meaning& meaning);
  bool flag(const std::string& key, const Meaning& meaning, bool fallback);
  bool required_flag(const std::string& key, const Meaning& meaning);
  /// Paths without duplicates.
  std::vector<std::string> words(const std::string& key, const Meaning& meaning,
                                 const std::vector<std::string>& fallback,
                                 const std::vector<std::string>& allowed = {});
  std::vector<std::string> required_words(const std::string& key, const Meaning& meaning,
                                          const std::vector<std::string>& allowed = {});
  std::vector<double> reals(const std::string& key, const Meaning& meaning,
                            const std::vector<double>& fallback, Range range = {});
  std::vector<double> required_reals(const std::string& key, const Meaning& meaning, Range range = {});
  /// Absolute; a relative path counts from the folder of the file that says it, and one of an override from
  /// that of the experiment file. An empty fallback stays empty.
  std::filesystem::path path(const std::string& key, const Meaning& meaning,
                             const std::filesystem::path& fallback);
  std::filesystem::path required_path(const std::string& key, const Meaning& meaning);
  /// Task-vector coefficients: a list, or { from = -2.0, to = 2.0, count = 9 } with both ends. Also throws
  /// InputError on an empty grid, a repeated or non-finite value, or one outside `range`.
  std::vector<double> alpha_grid(const std::string& key, const Meaning& meaning,
                                 const std::vector<double>& fallback, Range range = {});

  /// Sections in this one, of those `names` that the file has: they set keys of this section again, each for
  /// its own part. `what`: the names' place-holder in the reference, such as "REGIME".
  std::map<std::string, Section> parts(const std::vector<std::string>& names, const std::string& what,
                                       const Meaning& meaning);
  /// Whether the file (or an override) sets the key or table.
  bool has(const std::string& key) const;
  /// Whether it is set to a number, or to a list: for keys that take either.
  bool is_number(const std::string& key) const;
  bool is_list(const std::string& key) const;
  /// Throws InputError where numbers may differ (Config::let_numbers_differ) and this one does, which has one
  /// meaning for all tensors.
  void require_one_number(const std::string& key) const;
  /// The keys the file and its bases set, by line (for tables with free names).
  std::vector<std::string> keys() const;
  /// An InputError about this key: "FILE:LINE: key: problem". For checks that span several keys.
  [[noreturn]] void refuse(const std::string& key, const std::string& problem) const;
  /// "FILE:LINE: key", as refuse() begins.
  std::string where(const std::string& key) const;

 private:
  friend class Config;
  Section(std::shared_ptr<State> state, std::string name)
      : state_(std::move(state)), name_(std::move(name)) {}
  Section inner(const std::string& name) const;

  std::shared_ptr<State> state_;
  std::string name_;  // dotted; empty: the root
};

class Config {
 public:
  /// Reads the file, the files that it extends (State::read), and the overrides: key=value with dotted keys;
  /// values in TOML syntax, or bare words, taken as text. Throws InputError if a file cannot be read or
  /// parsed, or cannot be extended.
  static Config load(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
  /// A text in TOML that says what a file in another language does; `lines`: where that has each dotted key.
  static Config translated(const std::filesystem::path& path, const std::string& text,
                           std::map<std::string, std::size_t> lines,
                           const std::vector<std::string>& overrides = {});
  /// From now on a number may be a list, interpolated over the layers, or a list of { filter, value } (see
  /// Setting); real() has checked each of them.
  void let_numbers_differ();
  /// A configuration of no file, for the reference of keys: every section is there, and required keys have
  /// some value, so that every reader goes to its end; afterwards reference() has what was asked for.
  static Config describing(const std::vector<std::string>& overrides = {});

  bool has(const std::string& section) const;
  /// A section that every run has, whether or not the file does.
  Section section(const std::string& name, const Meaning& meaning);
  /// One whose presence asks for something; none where the file lacks it.
  std::optional<Section> optional_section(const std::string& name, const Meaning& meaning);
  /// The keys outside all sections.
  Section root();

  /// Throws InputError if the file has another optional section than this one.
  void require_alone(const std::string& section) const;
  /// Throws InputError if the file sets a key, or has a section, that nobody asked for; names the nearest
  /// known one, and of sections all.
  void finish() const;
  /// Canonical TOML of every asked key and its value. Loads again to the same configuration.
  std::string resolved() const;
  /// The reference, after describing(): all that was asked for until now. Throws std::logic_error where a key
  /// has two meanings.
  const std::vector<SectionEntry>& reference() const;

 private:
  explicit Config(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// What differs between two configurations as text: lines "section.key: old -> new", keys of both first. Throws
/// InputError if one of them is not TOML.
std::vector<std::string> difference(const std::string& old_text, const std::string& new_text);

}  // namespace taugrid::config
