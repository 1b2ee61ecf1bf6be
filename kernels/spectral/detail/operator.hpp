// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What both eigenvalue methods share: a counted and checked operator, and the start vector.
#pragma once

#include "kernels/spectral/spectral.hpp"

namespace taugrid::spectral::detail {

/// \throws std::invalid_argument
void check_arguments(const at::Tensor& like, const EigenOptions& options);

/// A normal random vector of unit length, drawn on the CPU; with `near`, as lanczos() has it, the direction
/// of the sum of both directions. \throws std::invalid_argument
at::Tensor start_vector(const at::Tensor& like, std::uint64_t seed, const at::Tensor& near = {});

/// Applies A, counts, and refuses what is not a finite vector.
class CountedOperator {
 public:
  explicit CountedOperator(const LinearOperator& apply) : apply_(apply) {}
  at::Tensor operator()(const at::Tensor& vector);
  std::int64_t products() const { return products_; }
  double last_norm() const { return last_norm_; }  ///< of the latest product

 private:
  const LinearOperator& apply_;
  std::int64_t products_ = 0;
  double last_norm_ = 0;
};

}  // namespace taugrid::spectral::detail
