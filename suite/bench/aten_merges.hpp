// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Merges of vectors in memory by plain ATen, which cases of merges are held against.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "suite/merging/task_vectors.hpp"

namespace taugrid::bench {

/// Vectors of equal lengths, each as one tensor of a model.
merging::HeldVectors held(const std::vector<at::Tensor>& vectors);

/// The k-th largest magnitude, by partial sorting.
float kth_magnitude(const at::Tensor& x, std::int64_t k);

/// What these methods make of a stretch [T,n] with their defaults; `cuts` [T], the least magnitude
/// that trimming leaves.
at::Tensor merged_by_aten(const std::string& method, const at::Tensor& x, const at::Tensor& cuts);

}  // namespace taugrid::bench
