// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which tensors of several folders are merged, and what becomes of the others: nothing is passed over that
// was not looked at.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "suite/store/tensor_folder.hpp"

namespace taugrid::merging {

struct MatchedTensors {
  /// Names of the floating-point tensors that θ0 and all models have: these are merged, in float32.
  std::vector<std::string> merged;
  /// Tensors of θ0 that no model has and that double a merged one there, by the name of that one. Tied
  /// matrices are stored once by some programs and twice by others.
  std::multimap<std::string, std::string> doubles;
  /// What was not merged, or not as it stood: a line each.
  std::vector<std::string> notes;
};

/// Compares names, types, shapes, and the numbers of what is not merged. Without any models (but adapters,
/// say) all that may be merged is. Throws InputError, which names the tensor and both folders: where a model
/// lacks a tensor that θ0 and another model have, or has one of its own that neither is a constant nor
/// doubles another; where shapes differ; and where numbers that are no floating-point numbers differ,
/// counters of batches aside.
MatchedTensors match_tensors(const store::TensorFolder& theta0,
                             const std::vector<const store::TensorFolder*>& models);

}  // namespace taugrid::merging
