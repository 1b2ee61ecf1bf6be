// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "suite/error.hpp"

namespace taugrid::program {

/// A name from a file in at most `most` letters of a table, of which its end says more than its beginning.
inline std::string short_name(const std::string& name, std::size_t most) {
  const auto line = as_line(name);
  if (line.size() <= most) return line;
  auto from = line.size() - most;
  while (from < line.size() && (line[from] & 0xc0) == 0x80) ++from;  // no letter is cut in two
  return "…" + line.substr(from);
}

}  // namespace taugrid::program
