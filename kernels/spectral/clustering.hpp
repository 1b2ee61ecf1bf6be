// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Spectral clustering of T tasks by the similarity of their vectors (paper 2, algorithm 1): W = |M| with zero
// diagonal, D its row sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace taugrid::spectral {

/// Eigenvalues [T], ascending, float64.
struct LaplacianEigenvalues {
  at::Tensor unnormalised;  ///< of L = D − W, whose gaps choose k in paper 2
  at::Tensor normalised;    ///< of I − D^−½ W D^−½; a task that resembles none counts as 1
};

/// The eigenvalues of similarities M [T,T], symmetric, float64, on the host, T ≥ 1; throws
/// std::invalid_argument for others.
LaplacianEigenvalues laplacian_eigenvalues(const at::Tensor& similarity);

/// The number of clusters by the largest gap: argmax over 1 < i < T of λ_{i+1} − λ_i, λ ascending from λ_1
/// (paper 2: at least 2, at most T − 1); T itself where T ≤ 2.
std::int64_t largest_gap(const at::Tensor& eigenvalues);

/// k clusters, 1 ≤ k ≤ T: label 0 … k − 1 of each task, numbered as they first come. The leading k
/// eigenvectors of D^−½ W D^−½, rows of unit length, k-means (Ng, Jordan and Weiss 2001); the best of many
/// starts from `seed`. Fewer than k where tasks cannot be told apart.
std::vector<std::int64_t> spectral_partition(const at::Tensor& similarity, std::int64_t k,
                                             std::uint64_t seed);

/// The partition with each cluster split into two that has a similarity below `least` < 0: by
/// spectral_partition() of its similarities, from which its smallest is taken, so that they are at least 0
/// (paper 2, algorithm 1, lines 5 to 12). Labels numbered as they first come.
std::vector<std::int64_t> split_by_sign(const at::Tensor& similarity, const std::vector<std::int64_t>& labels,
                                        double least, std::uint64_t seed);

/// The Rand index of two partitions of the same tasks, corrected for chance (Hubert and Arabie 1985, equation
/// 5): 1 where they are the same, 0 in the mean over partitions with clusters of these sizes.
double adjusted_rand_index(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);

/// The same partition with labels numbered as they first come.
std::vector<std::int64_t> in_order(const std::vector<std::int64_t>& labels);

}  // namespace taugrid::spectral
