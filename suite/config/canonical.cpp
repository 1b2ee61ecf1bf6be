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

/// The steps of a section's name. Entries of arrays are as wide as the largest, so that #10 is behind #2.
std::vector<std::string> steps_of(const std::string& section) {
  constexpr std::size_t width = 8;
  std::vector<std::string> steps;
  for (std::size_t begin = 0; begin <= section.size();) {
    const auto end = std::min(section.find('.', begin), section.size());
    auto step = section.substr(begin, end - begin);
    if (entry_index(step)) step.insert(1, width - step.size(), '0');
    steps.push_back(std::move(step));
    begin = end + 1;
  }
  return steps;
}

std::string joined(const std::vector<std::string>& steps) {
  std::string name;
  for (const auto& step : steps) name = join(name, step);
  return name;
}

/// "[out]" of the first `count` steps, or "[[models]]" of an entry.
std::string heading(const std::vector<std::string>& steps, std::size_t count) {
  std::string name;
  for (std::size_t i = 0; i < count; ++i)
    if (!entry_index(steps[i])) name = join(name, steps[i]);
  return entry_index(steps[count - 1]) ? "[[" + name + "]]" : "[" + name + "]";
}

}  // namespace

std::string document(const Values& values) {
  std::vector<std::pair<std::vector<std::string>, const Values::mapped_type*>> ordered;
  for (const auto& [section, keys] : values) ordered.emplace_back(steps_of(section), &keys);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return joined(a.first) < joined(b.first); });
  std::string text;
  std::vector<std::string> before;
  for (const auto& [steps, keys] : ordered) {
    std::size_t same = 0;
    while (same < std::min(steps.size(), before.size()) && steps[same] == before[same]) ++same;
    for (std::size_t count = 1; count <= steps.size() && !joined(steps).empty(); ++count) {
      // An entry of an array begins where its table, or one in it, is said for the first time.
      if (count == steps.size() || (count > same && entry_index(steps[count - 1])))
        text += (text.empty() ? "" : "\n") + heading(steps, count) + "\n";
    }
    for (const auto& [key, value] : *keys) {
      text += canonical_key(key) + " = " + value + "\n";
    }
    before = steps;
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
