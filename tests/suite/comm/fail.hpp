// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Starts the program that fails as told.
#pragma once

#include <string>
#include <vector>

#include "tests/suite/comm/launch.hpp"

namespace taugrid::test {

inline std::vector<std::string> command(int ranks, const std::string& how, int ranks_per_host = 0,
                                        const std::string& limit = "1000") {
  return launched(ranks, {PROGRAM, how, std::to_string(ranks_per_host), limit});
}

inline Ended run(int ranks, const std::string& how, int ranks_per_host = 0,
                 const std::string& limit = "1000") {
  return Job(command(ranks, how, ranks_per_host, limit)).end();
}

/// Whether taugrid said one line, with all these parts.
inline bool one_line_with(const Ended& ended, const std::vector<std::string>& parts) {
  const auto lines = ended.lines();
  if (lines.size() != 1) {
    return false;
  }
  for (const auto& part : parts) {
    if (lines[0].find(part) == std::string::npos) {
      return false;
    }
  }
  return true;
}

}  // namespace taugrid::test
