// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace taugrid::machine {

/// STREAM's triad (McCalpin 1995) on n numbers: a = b + 3c. Blocks do not overlap.
void triad(float* a, const float* b, const float* c, std::int64_t n);

}  // namespace taugrid::machine
