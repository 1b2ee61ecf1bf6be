// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace taugrid::weights {

/// τ = θ* − θ0 on a block of n numbers of some models, in one pass over memory that may be files' own pages;
/// whether all of it is finite. Blocks of τ overlap nothing else.
bool subtract(std::span<const float* const> tuned, const float* start, std::span<float* const> out,
              std::int64_t n);

/// As many models as memory is read of side by side without loss.
constexpr std::size_t side_by_side = 4;

}  // namespace taugrid::weights
