// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/config/canonical.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

namespace taugrid::config {

std::string canonical(std::int64_t value) { return std::to_string(value); }

std::string canonical(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".en") == std::string::npos) {
    text += ".0";
  }
  return text;
}

std::string canonical(bool value) { return value ? "true" : "false"; }

std::string canonical(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(c));
      text += escape.data();
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string canonical_key(const std::string& key) {
  const auto bare = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !key.empty() && std::all_of(key.begin(), key.end(), bare) ? key : canonical(key);
}

std::string join(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

std::string entry_step(std::size_t index) { return std::string("#").append(std::to_string(index + 1)); }

std::optional<std::size_t> entry_index(const std::string& step) {
  if (step.size() < 2 || step.size() > 8 || step.front() != '#') return std::nullopt;
  std::size_t number = 0;
  for (const char c : step.substr(1)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + static_cast<std::size_t>(c - '0');
  }
  return number > 0 ? std::optional(number - 1) : std::nullopt;
}

namespace {

/// "models.#2" → "models" and 1; a name of another kind whole, and 0.
std::pair<std::string, std::size_t> array_and_entry(const std::string& section) {
  const auto dot = section.rfind('.');
  const auto index = dot == std::string::npos ? std::nullopt : entry_index(section.substr(dot + 1));
  return index ? std::pair(section.substr(0, dot), *index) : std::pair(section, std::size_t{0});
}

}  // namespace

std::string document(const Values& values) {
  std::vector<Values::const_pointer> ordered;
  for (const auto& entry : values) ordered.push_back(&entry);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return array_and_entry(a->first) < array_and_entry(b->first);
  });
  std::string text;
  for (const auto* entry : ordered) {
    const auto& [section, keys] = *entry;
    if (!section.empty()) {
      const auto name = array_and_entry(section).first;
      text += (text.empty() ? "[" : "\n[") + (name == section ? name : "[" + name + "]") + "]\n";
    }
    for (const auto& [key, value] : keys) {
      text += canonical_key(key) + " = " + value + "\n";
    }
  }
  return text;
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  if (word.size() > 100) {  // nobody's slip, and the table grows with it
    return best;
  }
  std::size_t fewest = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // Levenshtein distance, one row of the table at a time.
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) {
      row[j] = j;
    }
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    if (row.back() < fewest) {
      fewest = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace taugrid::config
