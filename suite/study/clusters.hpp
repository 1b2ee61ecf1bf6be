// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Tasks clustered by the cosines of their vectors (paper 2, algorithm 1).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "suite/study/study.hpp"

namespace taugrid::study {

/// cos(τᵢ, τⱼ) [T,T], float64 on the host, of the Gram matrix of T vectors. A vector that is zero resembles
/// none.
at::Tensor cosines_of(const at::Tensor& gram);

/// The spectral partition of T tasks into k clusters by their cosines [T,T], clusters with a cosine below
/// `split_below` split by sign: a label a task.
std::vector<std::int64_t> spectral_labels(const Study& study, const at::Tensor& cosine, std::int64_t k,
                                          double split_below = -1);

/// Labels as a unit's file has them, int64 [T].
std::vector<std::int64_t> labels_of(const at::Tensor& stored);

/// The members of `tasks` whose label, one a task, is c.
std::vector<std::size_t> members_of(const std::vector<std::size_t>& tasks,
                                    const std::vector<std::int64_t>& labels, std::int64_t c);

/// The tasks of every cluster, of one at least.
using Clusters = std::vector<std::vector<std::size_t>>;

/// Sorts `tasks` by their labels 0, 1, …, one a task.
Clusters clusters_by(const std::vector<std::size_t>& tasks, const std::vector<std::int64_t>& labels);

}  // namespace taugrid::study
