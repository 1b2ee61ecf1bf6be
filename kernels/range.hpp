// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace taugrid {

/// Neighbouring rows: begin, begin + 1, …, end() − 1.
struct Range {
  std::int64_t begin = 0, count = 0;
  std::int64_t end() const { return begin + count; }
};

}  // namespace taugrid
