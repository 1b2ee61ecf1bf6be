// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the file says and nobody asked for.
#include <algorithm>

#include "suite/config/config.hpp"
#include "suite/config/state.hpp"
#include "suite/error.hpp"

namespace taugrid::config {

namespace {

struct Unknown {
  std::string name;
  const toml::node* node;

  bool is_section() const { return node->is_table() && !node->as_table()->is_inline(); }
};

/// Keys and whole sections that nobody asked for.
void collect(const State& state, const toml::table& table, const std::string& prefix,
             std::vector<Unknown>& unknown) {
  for (const auto& [key, node] : table) {
    const std::string step(key.str());
    const std::string name = join(prefix, step);
    const auto section = state.asked.find(prefix);
    if (state.used.contains(name) || (section != state.asked.end() && section->second.contains(step))) {
      continue;
    }
    if (const auto* array = node.as_array();
        array != nullptr && state.sections.contains(join(name, entry_step(0)))) {
      for (std::size_t i = 0; i < array->size(); ++i)
        collect(state, *array->get_as<toml::table>(i), join(name, entry_step(i)), unknown);
      continue;
    }
    const auto* inner = node.as_table();
    const auto within = [&](const std::string& asked) {
      return asked == name || asked.starts_with(name + ".");
    };
    if (inner != nullptr && std::any_of(state.sections.begin(), state.sections.end(), within)) {
      collect(state, *inner, name, unknown);
    } else {
      unknown.push_back({name, &node});
    }
  }
}

std::string parent_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string describe_section(const State& state, const std::string& name) {
  std::vector<std::string> beside;  // in the same section, or in none
  std::string all;
  for (const auto& section : state.sections) {
    if (section.empty() || parent_of(section) != parent_of(name)) continue;
    beside.push_back(section);
    all += (all.empty() ? "[" : ", [") + section + "]";
  }
  if (all.empty()) all = "none in [" + parent_of(name) + "]";
  const std::string close = nearest(name, beside);
  return "section [" + name + "]; " +
         (close.empty() ? "there are " : "did you mean [" + close + "]? There are ") + all;
}

std::string describe_key(const State& state, const std::string& name) {
  std::vector<std::string> known(state.sections.begin(), state.sections.end());
  for (const auto& [prefix, keys] : state.asked) {
    for (const auto& entry : keys) {
      known.push_back(join(prefix, entry.first));
    }
  }
  const std::string close = nearest(name, known);
  return "key " + name +
         (close.empty() ? "; taugrid keys lists all, taugrid keys --recipe those of recipes"
                        : "; did you mean " + close + "?");
}

}  // namespace

void Config::finish() const {
  std::vector<Unknown> unknown;
  collect(*state_, state_->table, "", unknown);
  if (unknown.empty()) {
    return;
  }
  const auto place = [&](const Unknown& entry) {
    const auto file = std::find(state_->files.begin(), state_->files.end(), state_->file_of(entry.node));
    return std::pair(file, entry.node->source().begin.line);
  };
  std::stable_sort(unknown.begin(), unknown.end(),
                   [&](const Unknown& a, const Unknown& b) { return place(a) < place(b); });
  const auto& first = unknown.front();
  throw InputError(
      state_->where(first.name, first.node) + ": unknown " +
      (first.is_section() ? describe_section(*state_, first.name) : describe_key(*state_, first.name)) +
      (unknown.size() > 1 ? " (and " + std::to_string(unknown.size() - 1) + " more)" : ""));
}

void Config::require_alone(const std::string& section) const {
  if (state_->describing) return;
  for (const auto& entry : state_->reference) {
    const auto* node = state_->find(entry.name);
    if (!entry.optional || entry.name == section || node == nullptr || !node->is_table()) continue;
    throw InputError(state_->where(entry.name, node) + ": section [" + entry.name + "]: a run that has [" +
                     section + "] measures nothing else; expected it in another file");
  }
}

}  // namespace taugrid::config
