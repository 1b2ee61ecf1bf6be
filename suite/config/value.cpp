// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/config/value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

namespace taugrid::config {

namespace {

/// "200", "0.05", "1e9".
std::string short_text(double value) {
  std::array<char, 32> buffer{};
  std::string text(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
  for (const auto& [from, to] : {std::pair{"e+0", "e"}, {"e+", "e"}, {"e-0", "e-"}}) {
    if (const auto at = text.find(from); at != std::string::npos)
      text.replace(at, std::string(from).size(), to);
  }
  return text;
}

std::string bounds(Range range) {
  if (std::isinf(range.min) && std::isinf(range.max)) {
    return "";
  }
  if (range.above) {
    return " above " + short_text(range.min) +
           (std::isinf(range.max) ? "" : " and at most " + short_text(range.max));
  }
  if (std::isinf(range.max)) {
    return " of at least " + short_text(range.min);
  }
  if (std::isinf(range.min)) {
    return " of at most " + short_text(range.max);
  }
  return " from " + short_text(range.min) + " to " + short_text(range.max);
}

std::string each(Range range) { return bounds(range).empty() ? "" : ", each" + bounds(range); }

bool inside(double value, Range range) {
  return (range.above ? value > range.min : value >= range.min) && value <= range.max;
}

/// Some value that a description can go on with.
double example(Range range) { return std::clamp(1000.0, range.min, range.max); }

std::string choices(const Words& allowed, const std::string& what) {
  std::string text;
  for (const std::string& word : allowed) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return allowed.empty() ? what : "one of " + text;
}

std::string hint(const std::string& word, const Words& allowed) {
  const auto close = nearest(word, allowed);
  return close.empty() ? "" : "; did you mean " + close + "?";
}

bool permitted(const std::string& word, const Words& allowed) {
  return !word.empty() &&
         (allowed.empty() || std::find(allowed.begin(), allowed.end(), word) != allowed.end());
}

std::optional<double> number(const toml::node& node) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

void Value::refuse(const std::string& expected) const {
  if (node_ == nullptr) {
    section_.refuse(key_, "missing; expected " + expected);
  }
  section_.refuse(key_, "is " + canonical(*node_).substr(0, 80) + "; expected " + expected);
}

bool is_plain_name(const std::string& text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= 64 && letter(text.front()) && text.back() != '_' &&
         text.find("__") == std::string::npos && std::all_of(text.begin(), text.end(), [&](char c) {
           return letter(c) || c == '.' || c == '-' || c == '_';
         });
}

std::int64_t read_integer(Value value, std::optional<std::int64_t> fallback, Range range) {
  const std::string expected = "an integer" + bounds(range);
  if (const auto other = value.absent(expected, fallback, static_cast<std::int64_t>(example(range))))
    return *other;
  const auto* node = value.present() ? value.node().as_integer() : nullptr;
  if (node == nullptr || !inside(static_cast<double>(node->get()), range)) {
    value.refuse(expected);
  }
  return value.remember(node->get());
}

double read_real(Value value, std::optional<double> fallback, Range range) {
  const std::string expected = "a number" + bounds(range);
  if (const auto other = value.absent(expected, fallback, example(range))) return *other;
  const auto real = value.present() ? number(value.node()) : std::nullopt;
  if (!real || !inside(*real, range)) {
    value.refuse(expected);
  }
  return value.remember(*real);
}

namespace {

/// A number, or at least two over the layers; empty where there is something else.
Reals over_layers(const toml::node& node, Range range) {
  Reals values;
  const auto take = [&](const toml::node& entry) {
    const auto real = number(entry);
    if (real && inside(*real, range)) values.push_back(*real);
  };
  const auto* array = node.as_array();
  if (array == nullptr) {
    take(node);
    return values;
  }
  for (const auto& entry : *array) take(entry);
  return values.size() == array->size() && values.size() > 1 ? values : Reals{};
}

}  // namespace

Setting read_setting(Value value, Range range) {
  const std::string expected = "a number" + bounds(range) +
                               ", two or more of them over the layers, or a list of " +
                               "{ filter = \"PART OF A NAME\", value = … }";
  Setting setting;
  const auto add = [&](const std::string& filter, const toml::node& node) {
    setting.cases.push_back({filter, over_layers(node, range)});
    if (setting.cases.back().values.empty()) value.refuse(expected);
  };
  const auto add_case = [&](const toml::table& table) {
    const auto* filter = table.get("filter");
    const auto* said = table.get("value");
    const bool fits = said != nullptr && table.size() == (filter == nullptr ? 1 : 2) &&
                      (filter == nullptr || (filter->is_string() && !filter->as_string()->get().empty()));
    if (!fits) value.refuse(expected);
    const auto part = filter == nullptr ? std::string() : filter->as_string()->get();
    add(part == "*" ? "" : part, *said);
  };
  const auto* array = value.node().as_array();
  if (const auto* table = value.node().as_table(); table != nullptr) {
    add_case(*table);
  } else if (array != nullptr && !array->empty() && array->get(0)->is_table()) {
    for (const auto& entry : *array) {
      if (!entry.is_table()) value.refuse(expected);
      add_case(*entry.as_table());
    }
  } else {
    add("", value.node());
  }
  if (value.node().is_number()) {
    value.remember(setting.cases.front().values.front());
  } else {
    value.remember_node();
  }
  return setting;
}

std::optional<double> Setting::of(const std::string& tensor, double depth) const {
  for (const auto& each : cases) {
    if (!each.filter.empty() && tensor.find(each.filter) == std::string::npos) continue;
    const double place = depth * static_cast<double>(each.values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const auto above = std::min(below + 1, each.values.size() - 1);
    const double share = place - static_cast<double>(below);
    return (1 - share) * each.values[below] + share * each.values[above];
  }
  return std::nullopt;
}

bool read_flag(Value value, std::optional<bool> fallback) {
  const std::string expected = "true or false";
  if (const auto other = value.absent(expected, fallback, false)) return *other;
  const auto* node = value.present() ? value.node().as_boolean() : nullptr;
  if (node == nullptr) {
    value.refuse(expected);
  }
  return value.remember(node->get());
}

std::string read_word(Value value, std::optional<std::string> fallback, const Words& allowed,
                      const std::string& what) {
  const std::string expected = choices(allowed, what);
  if (const auto other = value.absent(expected, fallback, allowed.empty() ? "example" : allowed.front()))
    return *other;
  const auto* node = value.present() ? value.node().as_string() : nullptr;
  // The resolved text holds the fallback, also an empty one, and must load again.
  if (node == nullptr || (node->get() != fallback && !permitted(node->get(), allowed))) {
    value.refuse(expected + (node == nullptr ? "" : hint(node->get(), allowed)));
  }
  return value.remember(node->get());
}

Words read_words(Value value, std::optional<Words> fallback, const Words& allowed, const std::string& what) {
  const std::string expected =
      "a list of " + (allowed.empty() ? what : "words, each " + choices(allowed, what));
  const Words some = allowed.empty() ? Words{"first", "second"} : Words{allowed.front()};
  if (const auto other = value.absent(expected, fallback, some)) return *other;
  const auto* array = value.present() ? value.node().as_array() : nullptr;
  if (array == nullptr) {
    value.refuse(expected);
  }
  Words result;
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

namespace {

Reals list_of_reals(const Value& value, Range range) {
  const auto* array = value.present() ? value.node().as_array() : nullptr;
  Reals result;
  if (array == nullptr) {
    value.refuse("a list of numbers");
  }
  for (const auto& entry : *array) {
    const auto real = number(entry);
    if (!real || !inside(*real, range)) {
      value.refuse("a list of finite numbers" + each(range));
    }
    result.push_back(*real);
  }
  return result;
}

}  // namespace

Reals read_reals(Value value, std::optional<Reals> fallback, Range range) {
  const std::string expected = "a list of numbers" + each(range);
  if (const auto other = value.absent(expected, fallback, Reals{example(range)})) return *other;
  return value.remember(list_of_reals(value, range));
}

Reals read_grid(Value value, const Reals& fallback, Range range) {
  const std::string expected = "a list of numbers" + each(range) + ", or { from = A, to = B, count = N }";
  if (const auto other = value.absent(expected, std::optional(fallback), fallback)) return *other;
  return value.node().is_table() ? Reals{} : list_of_reals(value, range);
}

}  // namespace taugrid::config
