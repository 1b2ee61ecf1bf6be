// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "suite/config/config.hpp"
#include "suite/config/state.hpp"
#include "suite/error.hpp"

namespace taugrid::config {

namespace {

/// Reads typed values of one key; each failure names the key and what was expected.
class Value {
 public:
  Value(State& state, const Section& section, const std::string& name, const std::string& key)
      : section_(section), key_(key), node_(state.find(join(name, key))), group_(state.asked[name]) {}

  bool present() const { return node_ != nullptr; }
  const toml::node& node() const { return *node_; }

  [[noreturn]] void refuse(const std::string& expected) const {
    if (node_ == nullptr) {
      section_.refuse(key_, "missing; expected " + expected);
    }
    section_.refuse(key_, "is " + canonical(*node_).substr(0, 80) + "; expected " + expected);
  }

  template <class T>
  T remember(T value) {
    group_[key_] = canonical(value);
    return value;
  }

 private:
  const Section& section_;
  const std::string& key_;
  const toml::node* node_;
  std::map<std::string, std::string>& group_;
};

std::string bounds(Range range) {
  if (std::isinf(range.min) && std::isinf(range.max)) {
    return "";
  }
  if (std::isinf(range.max)) {
    return " of at least " + canonical(range.min);
  }
  if (std::isinf(range.min)) {
    return " of at most " + canonical(range.max);
  }
  return " from " + canonical(range.min) + " to " + canonical(range.max);
}

bool inside(double value, Range range) { return value >= range.min && value <= range.max; }

std::string choices(const std::vector<std::string>& allowed) {
  std::string text;
  for (const std::string& word : allowed) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return allowed.empty() ? "text" : "one of " + text;
}

std::string hint(const std::string& word, const std::vector<std::string>& allowed) {
  const auto close = nearest(word, allowed);
  return close.empty() ? "" : "; did you mean " + close + "?";
}

bool permitted(const std::string& word, const std::vector<std::string>& allowed) {
  return !word.empty() &&
         (allowed.empty() || std::find(allowed.begin(), allowed.end(), word) != allowed.end());
}

/// Unit keys become file names with "__" for each slash, and pairs are named with a '+'.
bool is_plain_name(const std::string& text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= 64 && letter(text.front()) && text.back() != '_' &&
         text.find("__") == std::string::npos && std::all_of(text.begin(), text.end(), [&](char c) {
           return letter(c) || c == '.' || c == '-' || c == '_';
         });
}

constexpr const char* plain_name =
    "a plain name of at most 64 letters, digits, '.', '-' and single '_', that begins with a letter or digit";

std::optional<double> number(const toml::node& node) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::int64_t read_integer(Value value, std::optional<std::int64_t> fallback, Range range) {
  if (!value.present() && fallback) {
    return value.remember(*fallback);
  }
  const auto* node = value.present() ? value.node().as_integer() : nullptr;
  if (node == nullptr || !inside(static_cast<double>(node->get()), range)) {
    value.refuse("an integer" + bounds(range));
  }
  return value.remember(node->get());
}

double read_real(Value value, std::optional<double> fallback, Range range) {
  if (!value.present() && fallback) {
    return value.remember(*fallback);
  }
  const auto found = value.present() ? number(value.node()) : std::nullopt;
  if (!found || !inside(*found, range)) {
    value.refuse("a number" + bounds(range));
  }
  return value.remember(*found);
}

std::string read_word(Value value, std::optional<std::string> fallback,
                      const std::vector<std::string>& allowed) {
  if (!value.present() && fallback) {
    return value.remember(*fallback);
  }
  const auto* node = value.present() ? value.node().as_string() : nullptr;
  // The resolved text holds the fallback, also an empty one, and must load again.
  if (node == nullptr || (node->get() != fallback && !permitted(node->get(), allowed))) {
    value.refuse(choices(allowed) + (node == nullptr ? "" : hint(node->get(), allowed)));
  }
  return value.remember(node->get());
}

bool read_flag(Value value, std::optional<bool> fallback) {
  if (!value.present() && fallback) {
    return value.remember(*fallback);
  }
  const auto* node = value.present() ? value.node().as_boolean() : nullptr;
  if (node == nullptr) {
    value.refuse("true or false");
  }
  return value.remember(node->get());
}

std::vector<std::string> read_words(Value value, std::optional<std::vector<std::string>> fallback,
                                    const std::vector<std::string>& allowed) {
  if (!value.present() && fallback) {
    return value.remember(*fallback);
  }
  const std::string expected = "a list of " + (allowed.empty() ? "texts" : "words, each " + choices(allowed));
  const auto* array = value.present() ? value.node().as_array() : nullptr;
  if (array == nullptr) {
    value.refuse(expected);
  }
  std::vector<std::string> result;
  std::set<std::string> seen;
  for (const auto& entry : *array) {
    const auto* word = entry.as_string();
    if (word == nullptr || !permitted(word->get(), allowed)) {
      value.refuse(expected + (word == nullptr ? "" : hint(word->get(), allowed)));
    }
    if (!seen.insert(word->get()).second) {
      value.refuse("no duplicates; " + canonical(word->get()) + " stands there twice");
    }
    result.push_back(word->get());
  }
  return value.remember(result);
}

std::vector<double> list_of_reals(const Value& value, Range range) {
  const auto* array = value.present() ? value.node().as_array() : nullptr;
  std::vector<double> result;
  if (array == nullptr) {
    value.refuse("a list of numbers");
  }
  for (const auto& entry : *array) {
    const auto found = number(entry);
    if (!found || !inside(*found, range)) {
      value.refuse("a list of finite numbers" + (bounds(range).empty() ? "" : ", each" + bounds(range)));
    }
    result.push_back(*found);
  }
  return result;
}

std::vector<double> read_reals(Value value, std::optional<std::vector<double>> fallback, Range range) {
  return value.remember(!value.present() && fallback ? *fallback : list_of_reals(value, range));
}

std::filesystem::path absolute(const State& state, const std::filesystem::path& path) {
  return path.empty() ? path : (state.file.parent_path() / path).lexically_normal();
}

}  // namespace

void Section::refuse(const std::string& key, const std::string& problem) const {
  const std::string name = join(name_, key);
  const auto* node = state_->find(name);
  const auto* at = node != nullptr ? node : state_->find(name_);
  throw InputError(state_->where(name, at) + ": " + name + ": " + problem);
}

bool Section::has(const std::string& key) const { return state_->find(join(name_, key)) != nullptr; }

bool Section::is_number(const std::string& key) const {
  const auto* node = state_->find(join(name_, key));
  return node != nullptr && node->is_number();
}
bool Section::is_list(const std::string& key) const {
  const auto* node = state_->find(join(name_, key));
  return node != nullptr && node->is_array();
}

std::vector<std::string> Section::keys() const {
  std::vector<std::string> result;
  const auto* node = state_->find(name_);
  if (node != nullptr && node->is_table()) {
    std::vector<std::pair<toml::source_position, std::string>> found;
    for (const auto& [key, value] : *node->as_table()) {
      found.emplace_back(key.source().begin, std::string(key.str()));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& entry : found) {
      result.push_back(std::move(entry.second));
    }
  }
  return result;
}

Section Section::sub(const std::string& name) {
  Section result(state_, join(name_, name));
  const auto* node = state_->find(result.name_);
  if (node != nullptr && !node->is_table()) {
    refuse(name, "is a key; expected a section [" + result.name_ + "]");
  }
  state_->sections.insert(result.name_);
  return result;
}

std::int64_t Section::integer(const std::string& key, std::int64_t fallback, Range range) {
  return read_integer({*state_, *this, name_, key}, fallback, range);
}
std::int64_t Section::required_integer(const std::string& key, Range range) {
  return read_integer({*state_, *this, name_, key}, std::nullopt, range);
}

double Section::real(const std::string& key, double fallback, Range range) {
  return read_real({*state_, *this, name_, key}, fallback, range);
}
double Section::required_real(const std::string& key, Range range) {
  return read_real({*state_, *this, name_, key}, std::nullopt, range);
}

std::string Section::word(const std::string& key, const std::string& fallback,
                          const std::vector<std::string>& allowed) {
  return read_word({*state_, *this, name_, key}, fallback, allowed);
}
std::string Section::required_word(const std::string& key, const std::vector<std::string>& allowed) {
  return read_word({*state_, *this, name_, key}, std::nullopt, allowed);
}

std::string Section::name(const std::string& key, const std::string& fallback) {
  const auto found = word(key, fallback);
  if (found != fallback && !is_plain_name(found)) refuse(key, "is " + canonical(found) + "; expected " + plain_name);
  return found;
}
std::vector<std::string> Section::required_names(const std::string& key) {
  auto found = required_words(key);
  for (const auto& each : found) {
    if (!is_plain_name(each)) refuse(key, "holds " + canonical(each) + "; expected " + plain_name);
  }
  return found;
}

bool Section::flag(const std::string& key, bool fallback) {
  return read_flag({*state_, *this, name_, key}, fallback);
}
bool Section::required_flag(const std::string& key) {
  return read_flag({*state_, *this, name_, key}, std::nullopt);
}

std::vector<std::string> Section::words(const std::string& key, const std::vector<std::string>& fallback,
                                        const std::vector<std::string>& allowed) {
  return read_words({*state_, *this, name_, key}, fallback, allowed);
}
std::vector<std::string> Section::required_words(const std::string& key,
                                                 const std::vector<std::string>& allowed) {
  return read_words({*state_, *this, name_, key}, std::nullopt, allowed);
}

std::vector<double> Section::reals(const std::string& key, const std::vector<double>& fallback, Range range) {
  return read_reals({*state_, *this, name_, key}, fallback, range);
}
std::vector<double> Section::required_reals(const std::string& key, Range range) {
  return read_reals({*state_, *this, name_, key}, std::nullopt, range);
}

std::filesystem::path Section::path(const std::string& key, const std::filesystem::path& fallback) {
  Value value(*state_, *this, name_, key);
  const auto given = read_word(value, fallback.string(), {});
  return value.remember(absolute(*state_, given).string());
}
std::filesystem::path Section::required_path(const std::string& key) {
  Value value(*state_, *this, name_, key);
  const auto given = read_word(value, std::nullopt, {});
  return value.remember(absolute(*state_, given).string());
}

std::vector<double> alpha_grid(Section& section, const std::string& key, const std::vector<double>& fallback,
                               Range range) {
  const std::string name = join(section.name_, key);
  Value value(*section.state_, section, section.name_, key);
  std::vector<double> grid = fallback;
  if (value.present() && value.node().is_table()) {
    // Read through a section of its own for its checks; the resolved text gets the grid itself.
    Section inner(section.state_, name);
    const auto from = inner.required_real("from", range);
    const auto to = inner.required_real("to", range);
    const auto count = inner.required_integer("count", {1, 1e4});
    section.state_->asked.erase(name);
    for (const std::string& other : inner.keys()) {
      if (other != "from" && other != "to" && other != "count") {
        inner.refuse(other, "unknown; expected from, to and count");
      }
    }
    grid.clear();
    for (std::int64_t i = 0; i < count; ++i) {
      grid.push_back(count == 1 ? from
                                : (from * static_cast<double>(count - 1 - i) + to * static_cast<double>(i)) /
                                      static_cast<double>(count - 1));
    }
  } else if (value.present()) {
    grid = list_of_reals(value, range);
  }
  if (grid.empty()) {
    section.refuse(key, "the grid is empty; expected at least one coefficient");
  }
  std::set<double> seen;
  for (double& alpha : grid) {
    alpha += 0.0;  // -0 and 0 are one coefficient
    if (!seen.insert(alpha).second) {
      section.refuse(key, "the coefficient " + canonical(alpha) + " stands there twice");
    }
  }
  return value.remember(grid);
}

}  // namespace taugrid::config
