// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace taugrid::weights {

/// Stretches of vectors τ_t as memory has them: τ_t themselves, or θ_t and the θ0 that a kernel subtracts of
/// each on the way, which costs it less than reading τ_t that someone wrote before.
struct Stretches {
  std::span<const at::Tensor> x;
  at::Tensor start = {};  ///< θ0 where x are θ_t; undefined: x are τ_t
};

}  // namespace taugrid::weights
