// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include "suite/config/state.hpp"

namespace taugrid::config {

namespace {

/// Readers in several files may ask for the same, in the same words.
void require_same(const std::string& name, const std::string& before, std::string_view now) {
  if (before != now)
    throw std::logic_error(name + " has two meanings: \"" + before + "\" and \"" + std::string(now) + "\"");
}

}  // namespace

SectionEntry& State::describe(const std::string& section, const Meaning& meaning) {
  const auto section_entry = std::find_if(reference.begin(), reference.end(),
                                          [&](const SectionEntry& entry) { return entry.name == section; });
  if (section_entry == reference.end()) {
    auto place = reference.end();
    if (const auto dot = section.rfind('.'); dot != std::string::npos) {  // behind those of the same section
      const auto outer = section.substr(0, dot);
      place = std::find_if(reference.begin(), reference.end(),
                           [&](const SectionEntry& entry) { return entry.name == outer; });
      if (place != reference.end()) ++place;
      while (place != reference.end() && place->name.starts_with(outer + ".")) ++place;
    }
    return *reference.insert(place, {.name = section, .meaning = std::string(meaning.text)});
  }
  require_same("[" + section + "]", section_entry->meaning, meaning.text);
  return *section_entry;
}

void State::describe(const std::string& section, const std::string& key, const Meaning& meaning,
                     const std::string& values, const std::string& fallback) {
  if (!describing) return;
  const auto at = std::find_if(reference.begin(), reference.end(),
                               [&](const SectionEntry& entry) { return entry.name == section; });
  if (at == reference.end()) throw std::logic_error("section [" + section + "] says nothing of itself");
  auto& keys = at->keys;
  const auto key_entry =
      std::find_if(keys.begin(), keys.end(), [&](const KeyEntry& entry) { return entry.key == key; });
  if (key_entry != keys.end()) return require_same(join(section, key), key_entry->meaning, meaning.text);
  const auto or_words = [](std::string_view words, const std::string& text) {
    return words.empty() ? text : std::string(words);
  };
  keys.push_back({key, or_words(meaning.in_words.values, values), std::string(meaning.text),
                  or_words(meaning.in_words.fallback, fallback.empty()     ? "required"
                                                      : fallback == "\"\"" ? "none"
                                                                           : fallback)});
}

}  // namespace taugrid::config
