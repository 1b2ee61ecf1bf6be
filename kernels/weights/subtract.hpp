// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace taugrid::weights {

/// τ = θ* − θ0 on a block of n numbers, in one pass over memory that may be a file's own pages; whether all
/// of τ is finite.
bool subtract(const float* tuned, const float* start, float* out, std::int64_t n);

}  // namespace taugrid::weights
