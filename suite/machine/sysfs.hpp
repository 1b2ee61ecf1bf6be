// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The small files in which Linux says what a host counts.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace taugrid::machine::sysfs {

/// Says why a counter cannot be used.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline std::string first_line(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line))
    throw Unreadable(fmt::format("{} cannot be read: {}", path.string(),
                                 errno == 0 ? "it is empty" : std::strerror(errno)));
  return line;
}

/// Returns the whole number that a file begins with.
inline double number_in(const std::filesystem::path& path) {
  const auto line = first_line(path);
  std::uint64_t value = 0;
  try {
    value = std::stoull(line);
  } catch (const std::logic_error&) {
    throw Unreadable(fmt::format("{} holds no number", path.string()));
  }
  return static_cast<double>(value);
}

/// Returns whether there is something of this name, whoever may read it.
inline bool there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Returns what lies in a folder, by name; nothing where there is none.
inline std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> all;
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored))
    all.push_back(at->path());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace taugrid::machine::sysfs
