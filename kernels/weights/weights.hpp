// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Arithmetic on flat parameter vectors (θ0, task vectors τ): each function is one pass over memory.
//
// Vectors are one-dimensional, contiguous, float32 or float64, and agree in length P, dtype and device;
// anything else is std::invalid_argument. Host vectors are worked on by Kokkos' default host space, CUDA and
// HIP vectors by Kokkos where it was built for them, all others by ATen. Kokkos must be initialised. No
// gradient is recorded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "kernels/weights/stretches.hpp"

namespace taugrid::weights {

/// Task arithmetic for many coefficient vectors at once: out[k] = θ0 + Σₜ alpha[k,t]·tau[t]
/// (paper 1, section 2: task arithmetic, one coefficient a task).
///
/// theta0 [P]; tau T vectors [P]; alpha [K,T], float32 or float64, on any device; out [K,P] like theta0,
/// which must not overlap the inputs. The sum runs over t in ascending order in the vectors' own dtype, so
/// out[k] does not depend on K; within rounding alone on devices that only ATen knows. θ0 and τ are read from
/// memory once for all K. \throws std::invalid_argument on shapes, dtypes, devices or overlap other than
/// these.
void combine(const at::Tensor& theta0, std::span<const at::Tensor> tau, const at::Tensor& alpha,
             at::Tensor& out);

/// As above, into a new tensor [K,P].
at::Tensor combine(const at::Tensor& theta0, std::span<const at::Tensor> tau, const at::Tensor& alpha);

/// Inner products of all pairs, G[i,j] = ⟨vᵢ, vⱼ⟩: [T,T], float64, on the CPU, symmetric
/// (paper 2, section 3, takes the cosines of task vectors from it).
///
/// Products and sums are in double (a product of two float32 is exact there). The order of summation depends
/// on P alone: G[i,j] is bitwise the same for any number of threads, and whatever other vectors stand beside
/// i and j. (Kokkos on a device, and ATen, have orders of their own.) \throws std::invalid_argument
at::Tensor gram(std::span<const at::Tensor> vectors);

/// gram() of vectors of `length` numbers that come stretch by stretch, in any order, from any rank. On a host
/// the bits are those of the whole vectors.
class GramSum {
 public:
  GramSum(std::int64_t vectors, std::int64_t length);
  /// A stretch begins at a multiple of so many numbers, and is as long as one, or ends with the vectors.
  std::int64_t step() const { return step_; }
  /// Numbers begin … begin + n of each vector, as gram() takes them; a start is on the host. Says whether all
  /// differences that it made of float32 were finite. \throws std::invalid_argument
  bool add(std::int64_t begin, const Stretches& stretches);
  /// Sums so far, float64 [steps, pairs]: those of several ranks add up. Zero where nothing was added.
  at::Tensor& sums() { return sums_; }
  /// G [T,T], once every stretch was added.
  at::Tensor gram() const;

 private:
  std::int64_t vectors_, length_, step_;
  at::Tensor sums_;
};

/// ⟨a, b⟩ of two vectors [P], accumulated as in gram. \throws std::invalid_argument
double inner_product(const at::Tensor& a, const at::Tensor& b);

/// ⟨a, v_t⟩ of `a` [P] with each of the vectors: [T], float64, on the device of `a`, for which the host does
/// not wait. \throws std::invalid_argument as gram.
at::Tensor inner_products(const at::Tensor& a, std::span<const at::Tensor> vectors);

/// ‖a‖₂ of a vector [P], accumulated as in gram. \throws std::invalid_argument
double norm(const at::Tensor& a);

}  // namespace taugrid::weights
