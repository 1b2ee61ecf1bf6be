// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Squares of single samples' gradients, of which a diagonal Fisher information is a sum (Matena and Raffel
// 2022, equation 3). The square of a batch's gradient is something else, and depends on the batch's size.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/autodiff/tape.hpp"

namespace taugrid::tangent {

/// Adds Σᵢ gᵢ² to `sum` [P], gᵢ [P] being the gradient of ⟨output, cotangent⟩ at sample i of the recording:
/// one backward pass for all samples. A block that is used more than once has the square of its uses' sum. No
/// [n, P] gradients are ever held: work space is that of a few samples' largest block. `keep_graph`: for a
/// further cotangent.
void add_squared_gradients(const autodiff::Layout& layout, const autodiff::Recording& recording,
                           const at::Tensor& cotangent, bool keep_graph, at::Tensor& sum);

}  // namespace taugrid::tangent
