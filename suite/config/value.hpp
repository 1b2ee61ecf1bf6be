// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One key of a section, read as one type.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/config/state.hpp"

namespace taugrid::config {

/// Each failure names the key and what was expected.
class Value {
 public:
  Value(State& state, const Section& section, const std::string& name, const std::string& key,
        const Meaning& meaning)
      : state_(state),
        section_(section),
        name_(name),
        key_(key),
        meaning_(meaning),
        node_(state.find(join(name, key))) {}

  bool present() const { return node_ != nullptr; }
  const toml::node& node() const { return *node_; }
  [[noreturn]] void refuse(const std::string& expected) const;

  /// What stands for the key where it is absent: the fallback; where keys are described, any `example` for
  /// one that is required. None where it is present, or missed. `values`: what may stand there.
  template <class T>
  std::optional<T> absent(const std::string& values, const std::optional<T>& fallback, const T& example) {
    state_.describe(name_, key_, meaning_, values, fallback ? canonical(*fallback) : "");
    if (present()) return std::nullopt;
    if (fallback || state_.describing) return remember(fallback ? *fallback : example);
    return std::nullopt;
  }

  template <class T>
  T remember(T value) {
    state_.asked[name_][key_] = canonical(value);
    return value;
  }

  /// Whatever stands there.
  void remember_node() { state_.asked[name_][key_] = canonical(*node_); }

 private:
  State& state_;
  const Section& section_;
  const std::string& name_;
  const std::string& key_;
  const Meaning& meaning_;
  const toml::node* node_;
};

using Words = std::vector<std::string>;
using Reals = std::vector<double>;

std::int64_t read_integer(Value value, std::optional<std::int64_t> fallback, Range range);
double read_real(Value value, std::optional<double> fallback, Range range);
/// A number that is there, a list of them, or cases of { filter, value }.
Setting read_setting(Value value, Range range);
bool read_flag(Value value, std::optional<bool> fallback);
/// `what`: text, where any will do.
std::string read_word(Value value, std::optional<std::string> fallback, const Words& allowed,
                      const std::string& what = "text");
Words read_words(Value value, std::optional<Words> fallback, const Words& allowed,
                 const std::string& what = "texts");
Reals read_reals(Value value, std::optional<Reals> fallback, Range range);
/// A list; of a table { from, to, count }, nothing yet.
Reals read_grid(Value value, const Reals& fallback, Range range);

/// Unit keys become file names with "__" for each slash, and pairs are named with a '+'.
bool is_plain_name(const std::string& text);

}  // namespace taugrid::config
