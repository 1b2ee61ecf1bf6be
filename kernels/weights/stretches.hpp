// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

namespace taugrid::weights {

/// Stretches of vectors τ_t as memory has them: τ_t themselves, or θ_t and the θ0 that a kernel subtracts of
/// each on the way, which costs it less than reading τ_t that someone wrote before.
struct Stretches {
  std::span<const at::Tensor> x;
  at::Tensor start = {};  ///< θ0 where x are θ_t; undefined: x are τ_t
};

/// Sees numbers begin, begin + 1, … until the call ends; says whether all differences that it made were
/// finite.
using StretchVisitor = std::function<bool(std::int64_t begin, const Stretches& tau)>;

/// Numbers of a stretch on files: nothing of it is kept, so that it may be long, and a visit's own cost does
/// not count.
constexpr std::int64_t stretch_on_files = std::int64_t{1} << 18;

}  // namespace taugrid::weights
