// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A merge that makes each tensor by itself, one after another. Of a team each rank makes other tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "suite/merging/sink.hpp"
#include "suite/merging/task_vectors.hpp"
#include "suite/merging/team.hpp"

namespace taugrid::merging {

/// Flops that take as long as reading one number of a vector, about.
constexpr double flops_of_reading = 16;
/// Flops that a tensor takes beside the visit of its vectors.
using TensorFlops = std::function<double(const NamedTensor&)>;
/// Calls see(begin, numbers) for all of a merged tensor, float32, in order.
using MakeTensor = std::function<void(const NamedTensor&, const Sink::See& see)>;

/// Puts all tensors of `vectors`. Returns how many of their numbers are not zero.
std::int64_t put_tensors(const TaskVectors& vectors, const TensorFlops& flops, const MakeTensor& make,
                         const Sink& sink, const Team& team);

/// Numbers that a rank makes before they are exchanged, at most.
std::int64_t most_of_a_round(const std::vector<NamedTensor>& tensors);

}  // namespace taugrid::merging
