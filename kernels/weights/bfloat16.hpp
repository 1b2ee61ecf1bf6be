// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Numbers of bfloat16 as files have them, the upper halves of float32: n of them, whose ranges do not
// overlap. LibTorch's conversions take a team of threads a block, and a pass over memory more.
#pragma once

#include <cstdint>
#include <span>

namespace taugrid::weights {

/// The same numbers in float32.
void widen(const std::uint16_t* x, float* out, std::int64_t n);

/// τ = θ − θ0 in float32 of some models, θ and θ0 in bfloat16, in one pass over memory that may be files' own
/// pages; whether all of it is finite. θ0 null: 0.
bool subtract(std::span<const std::uint16_t* const> tuned, const std::uint16_t* start,
              std::span<float* const> out, std::int64_t n);
/// The same of a θ0 in float32, which is there.
bool subtract(std::span<const std::uint16_t* const> tuned, const float* start, std::span<float* const> out,
              std::int64_t n);

/// The nearest number of each, of two the even one, and one NaN for all (IEEE 754, as LibTorch has it);
/// whether all are finite.
bool narrow(const float* x, std::uint16_t* out, std::int64_t n);

}  // namespace taugrid::weights
