// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "suite/config/config.hpp"
#include "suite/config/value.hpp"
#include "suite/error.hpp"

namespace taugrid::config {

namespace {

constexpr const char* plain_name =
    "a plain name of at most 64 letters, digits, '.', '-' and single '_', that begins with a letter or digit";

/// The path that the node, or in its absence the fallback, says.
std::filesystem::path absolute(const State& state, const std::filesystem::path& path,
                               const toml::node* node) {
  return path.empty() ? path : (state.file_of(node).parent_path() / path).lexically_normal();
}

}  // namespace

std::string Section::where(const std::string& key) const {
  const std::string name = join(name_, key);
  const auto* node = state_->find(name);
  const auto* at = node != nullptr ? node : state_->find(name_);
  return state_->where(name, at) + ": " + name;
}

void Section::refuse(const std::string& key, const std::string& problem) const {
  throw InputError(where(key) + ": " + problem);
}

const std::map<std::string, Setting>& Section::settings() const { return state_->settings[name_]; }

std::map<std::string, std::string> Section::values() const {
  const auto entry = state_->asked.find(name_);
  if (entry == state_->asked.end()) return {};
  return {entry->second.begin(), entry->second.end()};
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

void Section::require_one_number(const std::string& key) const {
  if (has(key) && !is_number(key)) refuse(key, "is one number for all tensors; expected no list");
}

std::vector<std::string> Section::keys() const {
  std::vector<std::string> result;
  const auto* node = state_->find(name_);
  if (node != nullptr && node->is_table()) {
    std::vector<std::pair<toml::source_position, std::string>> entries;
    for (const auto& [key, value] : *node->as_table()) {
      entries.emplace_back(key.source().begin, std::string(key.str()));
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& entry : entries) {
      result.push_back(std::move(entry.second));
    }
  }
  return result;
}

Section Section::inner(const std::string& name) const {
  Section result(state_, join(name_, name));
  const auto* node = state_->find(result.name_);
  if (node != nullptr && !node->is_table()) {
    refuse(name, "is a key; expected a section [" + result.name_ + "]");
  }
  state_->sections.insert(result.name_);
  return result;
}

std::map<std::string, Section> Section::parts(const std::vector<std::string>& names, const std::string& what,
                                              const Meaning& meaning) {
  std::map<std::string, Section> sections;
  for (const auto& name : names) {
    const auto section = inner(name);
    if (has(name)) sections.emplace(name, section);
  }
  if (state_->describing) {
    state_->describe(join(name_, what), meaning).again = name_;
    sections.emplace(what, inner(what));
  }
  return sections;
}

std::int64_t Section::integer(const std::string& key, const Meaning& meaning, std::int64_t fallback,
                              Range range) {
  return read_integer({*state_, *this, name_, key, meaning}, fallback, range);
}
std::int64_t Section::required_integer(const std::string& key, const Meaning& meaning, Range range) {
  return read_integer({*state_, *this, name_, key, meaning}, std::nullopt, range);
}

double Section::real(const std::string& key, const Meaning& meaning, double fallback, Range range) {
  const Value value(*state_, *this, name_, key, meaning);
  if (!state_->by_tensor || !value.present()) return read_real(value, fallback, range);
  auto setting = read_setting(value, range);
  setting.where = where(key);
  const double first = setting.cases.front().values.front();
  state_->settings[name_][key] = std::move(setting);
  return first;
}
double Section::required_real(const std::string& key, const Meaning& meaning, Range range) {
  return read_real({*state_, *this, name_, key, meaning}, std::nullopt, range);
}

std::string Section::word(const std::string& key, const Meaning& meaning, const std::string& fallback,
                          const std::vector<std::string>& allowed) {
  return read_word({*state_, *this, name_, key, meaning}, fallback, allowed);
}
std::string Section::required_word(const std::string& key, const Meaning& meaning,
                                   const std::vector<std::string>& allowed) {
  return read_word({*state_, *this, name_, key, meaning}, std::nullopt, allowed);
}

std::string Section::name(const std::string& key, const Meaning& meaning, const std::string& fallback) {
  const auto text = read_word({*state_, *this, name_, key, meaning}, fallback, {}, "a plain name");
  if (text != fallback && !is_plain_name(text))
    refuse(key, "is " + canonical(text) + "; expected " + plain_name);
  return text;
}
std::vector<std::string> Section::required_names(const std::string& key, const Meaning& meaning) {
  auto names = read_words({*state_, *this, name_, key, meaning}, std::nullopt, {}, "plain names");
  for (const auto& each : names) {
    if (!is_plain_name(each)) refuse(key, "holds " + canonical(each) + "; expected " + plain_name);
  }
  return names;
}

bool Section::flag(const std::string& key, const Meaning& meaning, bool fallback) {
  return read_flag({*state_, *this, name_, key, meaning}, fallback);
}
bool Section::required_flag(const std::string& key, const Meaning& meaning) {
  return read_flag({*state_, *this, name_, key, meaning}, std::nullopt);
}

std::vector<std::string> Section::words(const std::string& key, const Meaning& meaning,
                                        const std::vector<std::string>& fallback,
                                        const std::vector<std::string>& allowed) {
  return read_words({*state_, *this, name_, key, meaning}, fallback, allowed);
}
std::vector<std::string> Section::required_words(const std::string& key, const Meaning& meaning,
                                                 const std::vector<std::string>& allowed) {
  return read_words({*state_, *this, name_, key, meaning}, std::nullopt, allowed);
}

std::vector<double> Section::reals(const std::string& key, const Meaning& meaning,
                                   const std::vector<double>& fallback, Range range) {
  return read_reals({*state_, *this, name_, key, meaning}, fallback, range);
}
std::vector<double> Section::required_reals(const std::string& key, const Meaning& meaning, Range range) {
  return read_reals({*state_, *this, name_, key, meaning}, std::nullopt, range);
}

std::filesystem::path Section::path(const std::string& key, const Meaning& meaning,
                                    const std::filesystem::path& fallback) {
  Value value(*state_, *this, name_, key, meaning);
  const auto given = read_word(value, fallback.string(), {}, "a path");
  return value.remember(absolute(*state_, given, state_->find(join(name_, key))).string());
}
std::filesystem::path Section::required_path(const std::string& key, const Meaning& meaning) {
  Value value(*state_, *this, name_, key, meaning);
  const auto given = read_word(value, std::nullopt, {}, "a path");
  return value.remember(absolute(*state_, given, state_->find(join(name_, key))).string());
}

std::vector<double> Section::alpha_grid(const std::string& key, const Meaning& meaning,
                                        const std::vector<double>& fallback, Range range) {
  Value value(*state_, *this, name_, key, meaning);
  auto grid = read_grid(value, fallback, range);
  if (value.present() && value.node().is_table()) {
    // Read through a section of its own for its checks; the resolved text gets the grid itself.
    Section ends(state_, join(name_, key));
    const auto from = ends.required_real("from", "The first coefficient", range);
    const auto to = ends.required_real("to", "The last coefficient", range);
    const auto count = ends.required_integer("count", "How many there are, at equal distances", {1, 1e4});
    state_->asked.erase(ends.name_);
    for (const std::string& other : ends.keys()) {
      if (other != "from" && other != "to" && other != "count") {
        ends.refuse(other, "unknown; expected from, to and count");
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      grid.push_back(count == 1 ? from
                                : (from * static_cast<double>(count - 1 - i) + to * static_cast<double>(i)) /
                                      static_cast<double>(count - 1));
    }
  }
  if (grid.empty()) {
    refuse(key, "the grid is empty; expected at least one coefficient");
  }
  std::set<double> seen;
  for (double& alpha : grid) {
    alpha += 0.0;  // -0 and 0 are one coefficient
    if (!seen.insert(alpha).second) {
      refuse(key, "the coefficient " + canonical(alpha) + " stands there twice");
    }
  }
  return value.remember(grid);
}

}  // namespace taugrid::config
