// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/processor.hpp"

#include <fstream>
#include <sstream>

namespace taugrid::comm {

std::string of_processor(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::string value;
    for (std::string word; words >> word;) value += (value.empty() ? "" : " ") + word;
    return value;
  }
  return "unknown";
}

}  // namespace taugrid::comm
