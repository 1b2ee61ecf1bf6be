// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "suite/error.hpp"

namespace taugrid::program {

/// Throws InputError where a file that an option names for writing is one of those that are read, or lies in
/// one of the folders that are. Empty paths are none.
inline void require_apart(const std::string& option, const std::filesystem::path& file,
                          const std::vector<std::filesystem::path>& read) {
  if (file.empty()) return;
  std::error_code error;
  for (auto place = std::filesystem::weakly_canonical(file, error); place.has_relative_path();
       place = place.parent_path()) {
    for (const auto& each : read)
      if (!each.empty() && std::filesystem::weakly_canonical(each, error) == place)
        throw InputError(option + " " + file.string() + ": would be written " +
                         (std::filesystem::is_directory(each, error) ? "into " : "over ") + each.string() +
                         ", which is read; expected another place");
  }
}

}  // namespace taugrid::program
