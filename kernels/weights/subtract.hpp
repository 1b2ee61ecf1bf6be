// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace taugrid::weights {

/// τ = θ* − θ0 on a block of n numbers, in one pass over memory that may be a file's own pages; whether all
/// of τ is finite.
bool subtract(const float* tuned, const float* start, float* out, std::int64_t n);

/// Lets the cache read the first lines of so many bytes.
void fetch(const void* begin, std::size_t bytes);

}  // namespace taugrid::weights
