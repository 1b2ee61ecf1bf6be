// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/unit_file.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

namespace taugrid::schedule::detail {

std::optional<std::map<std::string, std::string>> read_header(const std::filesystem::path& path) {
  std::error_code absent;
  const std::uintmax_t bytes = std::filesystem::file_size(path, absent);
  std::ifstream file(path, std::ios::binary);
  std::uint64_t length = 0;
  if (absent || bytes < sizeof length || !file.read(reinterpret_cast<char*>(&length), sizeof length) ||
      length > bytes - sizeof length) {
    return std::nullopt;
  }
  std::string text(length, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(length))) {
    return std::nullopt;
  }
  try {
    std::map<std::string, std::string> entries;
    std::uint64_t end = 0;
    const auto header = nlohmann::json::parse(text);  // named: items() refers to it
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        entries = value.get<std::map<std::string, std::string>>();
      } else {
        const auto& offset = value.at("data_offsets").at(1);
        if (!offset.is_number_unsigned())
          return std::nullopt;  // of others, the library converts what it cannot
        end = std::max(end, offset.get<std::uint64_t>());
      }
    }
    return bytes - sizeof length - length == end ? std::optional(entries) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace taugrid::schedule::detail
