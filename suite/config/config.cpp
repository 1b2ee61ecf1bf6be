// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/config/config.hpp"

#include <algorithm>

#include "suite/config/state.hpp"
#include "suite/error.hpp"

namespace taugrid::config {

namespace {

/// The right-hand side of an override: TOML, or a bare word.
toml::table parse_value(const std::string& given, const std::string& text) {
  const std::string where = "--set " + given;
  if (text.empty()) {
    throw InputError(where + ": expected key=value");
  }
  std::string reason;
  if (const auto fault = flaw(text)) {
    reason = fault->problem;
  } else {
    try {
      return toml::parse("value = " + text, where);
    } catch (const toml::parse_error& error) {
      reason = error.description();
    }
  }
  if (std::string("\"'[{").find(text.front()) != std::string::npos) {
    throw InputError(where + ": not a TOML value: " + reason);
  }
  try {
    return toml::parse("value = " + canonical(text), where);
  } catch (const toml::parse_error&) {
    throw InputError(where + ": expected a value in UTF-8");
  }
}

void set(State& state, const std::string& given) {
  const auto broken = given.find_first_of("\r\n");
  if (broken != std::string::npos) {
    throw InputError("--set " + given.substr(0, broken) + ": expected key=value on one line");
  }
  const auto equals = given.find('=');
  const std::string name = given.substr(0, equals);
  const auto path = steps(name);
  if (path.size() > step_limit) {
    throw InputError("--set " + given + ": expected a key of at most " + std::to_string(step_limit) +
                     " dotted steps");
  }
  if (equals == std::string::npos || std::any_of(path.begin(), path.end(), [](const std::string& step) {
        return step.empty() || canonical_key(step) != step;
      })) {
    throw InputError("--set " + given + ": expected key=value, the key dotted as in section.key");
  }
  if (path.front() == extends_key) {
    throw InputError("--set " + given + ": a file alone says what it extends");
  }
  toml::table value = parse_value(given, given.substr(equals + 1));
  toml::table* table = &state.table;
  for (std::size_t i = 0; i + 1 < path.size(); ++i) {
    toml::node* next = table->get(path[i]);
    if (next == nullptr) {
      next = &table->insert(path[i], toml::table{}).first->second;
    }
    table = next->as_table();
    if (table == nullptr) {
      throw InputError("--set " + given + ": " + path[i] + " is a key, not a section");
    }
  }
  table->insert_or_assign(path.back(), std::move(*value.get("value")));
  state.overridden[name] = "--set " + given;
}

void flatten(const toml::table& table, const std::string& prefix,
             std::map<std::string, std::string>& values) {
  for (const auto& [key, node] : table) {
    const std::string name = join(prefix, std::string(key.str()));
    if (const auto* inner = node.as_table()) {
      flatten(*inner, name, values);
    } else {
      values[name] = canonical(node);
    }
  }
}

}  // namespace

std::vector<std::string> steps(const std::string& name) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin <= name.size();) {
    const auto end = std::min(name.find('.', begin), name.size());
    result.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

std::string canonical(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return canonical(text->get());
  }
  if (const auto* integer = node.as_integer()) {
    return canonical(integer->get());
  }
  if (const auto* real = node.as_floating_point()) {
    return canonical(real->get());
  }
  if (const auto* flag = node.as_boolean()) {
    return canonical(flag->get());
  }
  std::string text;
  if (const auto* array = node.as_array()) {
    for (const auto& entry : *array) {
      text += (text.empty() ? "" : ", ") + canonical(entry);
    }
    return "[" + text + "]";
  }
  if (const auto* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      text += (text.empty() ? " " : ", ") + canonical_key(std::string(key.str())) + " = " + canonical(value);
    }
    return "{" + text + " }";
  }
  return "(a date)";
}

const toml::node* State::find(const std::string& name) const {
  const toml::node* node = &table;
  if (name.empty()) {
    return node;
  }
  for (const std::string& step : steps(name)) {
    const auto* inner = node->as_table();
    const auto* array = node->as_array();
    const auto index = array == nullptr ? std::nullopt : entry_index(step);
    node = inner != nullptr ? inner->get(step) : index ? array->get(*index) : nullptr;
    if (node == nullptr) {
      return nullptr;
    }
  }
  return node;
}

std::string State::where(const std::string& name, const toml::node* node) const {
  for (const auto& [key, given] : overridden) {
    if (name == key || name.starts_with(key + ".")) {
      return given;
    }
  }
  auto line = node == nullptr ? std::size_t{0} : std::size_t{node->source().begin.line};
  if (!lines.empty()) {  // of the key, or of what it stands in
    line = 0;
    for (std::string key = name; line == 0 && !key.empty();) {
      const auto entry = lines.find(key);
      line = entry == lines.end() ? 0 : entry->second;
      const auto dot = key.rfind('.');
      key = dot == std::string::npos ? "" : key.substr(0, dot);
    }
  }
  std::string text = file_of(node).string();
  if (line != 0) {
    text += ':';
    text += std::to_string(line);
  }
  return text;
}

Config Config::load(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  auto state = std::make_shared<State>();
  state->read(path);
  for (const std::string& given : overrides) {
    set(*state, given);
  }
  return Config(std::move(state));
}

Config Config::translated(const std::filesystem::path& path, const std::string& text,
                          std::map<std::string, std::size_t> lines,
                          const std::vector<std::string>& overrides) {
  auto state = std::make_shared<State>();
  state->files = {std::filesystem::absolute(path).lexically_normal()};
  state->table = parse_text(text, state->files.front().string());
  state->lines = std::move(lines);
  for (const std::string& given : overrides) {
    set(*state, given);
  }
  return Config(std::move(state));
}

void Config::let_numbers_differ() { state_->by_tensor = true; }

Config Config::describing(const std::vector<std::string>& overrides) {
  auto state = std::make_shared<State>();
  state->files = {std::filesystem::absolute("describing").lexically_normal()};
  state->describing = true;
  for (const std::string& given : overrides) {
    set(*state, given);
  }
  return Config(std::move(state));
}

bool Config::has(const std::string& section) const {
  const auto* node = state_->find(section);
  return state_->describing || (node != nullptr && node->is_table());
}

Section Config::root() { return {state_, ""}; }

Section Config::section(const std::string& name, const Meaning& meaning) {
  state_->describe(name, meaning);
  return root().inner(name);
}

std::optional<Section> Config::optional_section(const std::string& name, const Meaning& meaning) {
  state_->describe(name, meaning).optional = true;
  auto section = root().inner(name);
  return has(name) ? std::optional(section) : std::nullopt;
}

const std::vector<SectionEntry>& Config::reference() const { return state_->reference; }

namespace {

/// Keys that came after runs were made, and their values in programs of before. Where every section, or the
/// one that is named, has that value, the resolved text is without the key: runs of before are of the same
/// configuration, and go on.
const std::map<std::string, std::string> later_keys = {
    {"epochs", "0"},
    {"body", "\"frozen\""},
    {"body_clip_norm", "1.0"},
    {"drawn_as", "\"hugging_face\""},
    {"space", "\"full\""},
    {"calibration", "0.0"},
    {"knots_exclude", "[\"embed\", \"wte\", \"wpe\", \"shared\", \"lm_head\"]"},
    {"in_memory", "\"whole\""},
    {"lora_rank", "8"},
    {"lora_alpha", "8.0"},
    {"lora_modules", "[]"},
    {"chat_template", "\"\""},
    {"merging.regimes", "[]"}};

}  // namespace

std::string Config::resolved() const {
  auto sections = state_->asked;
  for (const auto& [path, value_before] : later_keys) {
    const auto dot = path.rfind('.');
    const auto key = path.substr(dot + 1);  // the whole path where it has no dot
    const auto concerned = [&, of = path.substr(0, dot)](const std::string& section) {
      return dot == std::string::npos || section == of;
    };
    bool as_before = true;
    for (const auto& [name, values] : sections) {
      const auto entry = values.find(key);
      if (concerned(name) && entry != values.end() && entry->second != value_before) as_before = false;
    }
    if (!as_before) continue;
    for (auto& [name, values] : sections)
      if (concerned(name)) values.erase(key);
  }
  return document(sections);
}

std::vector<std::string> difference(const std::string& old_text, const std::string& new_text) {
  std::map<std::string, std::string> before;
  std::map<std::string, std::string> after;
  flatten(parse_text(old_text, "old configuration"), "", before);
  flatten(parse_text(new_text, "new configuration"), "", after);
  std::vector<std::string> lines;
  for (const auto& [name, value] : before) {
    const auto now = after.find(name);
    if (now != after.end() && now->second != value)
      lines.push_back(name + ": " + value + " -> " + now->second);
  }
  // What both texts have says most, and comes first: a line of many differences is shortened.
  const std::string absent = "(absent)";
  std::vector<std::string> on_one_side;
  for (const auto& [name, value] : before) {
    if (!after.contains(name)) on_one_side.push_back(name + ": " + value + " -> " + absent);
  }
  for (const auto& [name, value] : after) {
    if (!before.contains(name)) on_one_side.push_back(name + ": " + absent + " -> " + value);
  }
  std::sort(on_one_side.begin(), on_one_side.end());
  lines.insert(lines.end(), on_one_side.begin(), on_one_side.end());
  return lines;
}

}  // namespace taugrid::config
