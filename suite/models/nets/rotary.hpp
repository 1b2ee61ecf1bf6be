// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al., 2021) of decoders, with the scalings that transformers names: default, linear,
// dynamic, llama3 and yarn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "kernels/autodiff/ops.hpp"
#include "suite/models/registry.hpp"

namespace taugrid::models {

/// The angle of pair i at place t is t·frequencies[i]; cosines and sines are multiplied by `factor`.
struct RotaryFrequencies {
  at::Tensor frequencies;  ///< float32 [d/2]
  double factor = 1;
  at::Tensor unscaled = {};  ///< the same without a scaling, as early versions of transformers stored them
};

/// What a config.json says: `parameters` is its object rope_parameters (transformers 5) or rope_scaling
/// (transformers 4), or null; `theta` is the base where that object has none, `width` a head's numbers and
/// `places` max_position_embeddings. Throws InputError for a scaling that is not known.
RotaryFrequencies rotary_frequencies(const nlohmann::json& parameters, const Keys& keys, double theta,
                                     std::int64_t width, std::int64_t places);

/// Cosines and sines at these places, int64 [k] on the host: two tensors [k, d/2] as `options` say. They are
/// computed in float32, as transformers has them.
autodiff::Rotation rotation_at(const RotaryFrequencies& rotary, const at::Tensor& places,
                               const at::TensorOptions& options);

}  // namespace taugrid::models
