// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Experiment files as they are read from disk: each over the one that it extends.
#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "suite/config/state.hpp"
#include "suite/error.hpp"

namespace taugrid::config {

namespace {

constexpr std::size_t size_limit = std::size_t{4} << 20;

/// Throws InputError, which begins with the path, where it has no file of a bearable size.
std::string text_of(const std::filesystem::path& path) {
  std::error_code error;
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream || std::filesystem::is_directory(path, error)) {
    const std::string reason = errno != 0 ? std::generic_category().message(errno) : "a folder";
    throw InputError(path.string() + ": cannot be read: " + reason + "; expected a TOML file");
  }
  std::string text;
  for (std::array<char, 1 << 14> part{}; text.size() <= size_limit && stream;) {  // a device may have no end
    stream.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (text.size() > size_limit) {
    throw InputError(path.string() + ": has more than " + std::to_string(size_limit) +
                     " bytes; expected an experiment file");
  }
  return text;
}

/// A table under a heading. One in braces is a value as a list is, and can take the place of another value.
bool is_section(const toml::node& node) { return node.is_table() && !node.as_table()->is_inline(); }

/// Moves into `table` what the base says beside it.
void inherit(const State& state, toml::table& table, toml::table& base, const std::string& prefix) {
  for (auto&& [key, inherited] : base) {
    toml::node* said = table.get(key.str());
    const std::string name = join(prefix, std::string(key.str()));
    if (said == nullptr) {
      table.insert(key, std::move(inherited));
    } else if (said->is_table() && inherited.is_table()) {
      inherit(state, *said->as_table(), *inherited.as_table(), name);
    } else if (is_section(*said) || is_section(inherited)) {
      const bool here = is_section(*said);
      throw InputError(state.where(name, said) + ": " + name + ": is a " + (here ? "section" : "key") +
                       " here and a " + (here ? "key" : "section") + " in " + state.where(name, &inherited) +
                       ", which this file extends; expected the same in both");
    }
  }
}

struct Base {
  std::string said_at;  // "FILE:LINE: extends"
  std::filesystem::path path;
};

/// The base that the table of files.back() names; the key leaves the table.
std::optional<Base> take_base(const State& state, toml::table& table) {
  const toml::node* node = table.get(extends_key);
  if (node == nullptr) return std::nullopt;
  const auto* said = node->as_string();
  Base base{state.where(std::string(extends_key), node) + ": extends", {}};
  if (said == nullptr || said->get().empty()) {
    throw InputError(base.said_at + ": is " + canonical(*node).substr(0, 80) +
                     "; expected the path of an experiment file");
  }
  base.path = (state.files.back().parent_path() / said->get()).lexically_normal();
  table.erase(extends_key);
  return base;
}

/// Throws InputError, which names the file that extends the base too.
toml::table read_base(const Base& base) {
  std::error_code unknown;
  const auto kind = std::filesystem::status(base.path, unknown).type();
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found) {
    // Whoever opens a pipe may wait for ever.
    throw InputError(base.said_at + ": " + base.path.string() +
                     " is a folder, a device or out of reach; expected a TOML file");
  }
  try {
    return parse_text(text_of(base.path), base.path.string());
  } catch (const InputError& error) {
    throw InputError(base.said_at + ": " + error.what());
  }
}

}  // namespace

toml::table parse_text(const std::string& text, const std::string& name) {
  if (const auto fault = flaw(text)) {
    throw InputError(name + ":" + std::to_string(fault->line) + ": not TOML: " + fault->problem);
  }
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    std::string reason(error.description());
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    throw InputError(name + ":" + std::to_string(error.source().begin.line) + ": not TOML: " + reason);
  }
}

void State::read(const std::filesystem::path& path) {
  files = {std::filesystem::absolute(path).lexically_normal()};
  table = parse_text(text_of(path), files.front().string());
  auto base = take_base(*this, table);
  while (base) {
    const auto same = [&](const std::filesystem::path& file) {
      std::error_code none_is_there;
      return std::filesystem::equivalent(file, base->path, none_is_there);
    };
    if (std::any_of(files.begin(), files.end(), same)) {
      throw InputError(base->said_at + ": " + base->path.string() +
                       " leads back to this file; expected a base that does not extend it");
    }
    auto inherited = read_base(*base);
    files.push_back(base->path);
    base = take_base(*this, inherited);
    inherit(*this, table, inherited, "");
  }
}

const std::filesystem::path& State::file_of(const toml::node* node) const {
  const auto source = node == nullptr ? nullptr : node->source().path;
  const auto file = source == nullptr ? files.end() : std::find(files.begin(), files.end(), *source);
  return file == files.end() ? files.front() : *file;
}

}  // namespace taugrid::config
