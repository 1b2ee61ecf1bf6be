// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One parameter block's share of an NTK: inner products of its per-sample gradients.
//
// A matrix block's gradient of sample i is Σ_tokens a ⊗ b, so that the inner product of samples i and j is
// Σ_{t,s} ⟨a_it, a_js⟩⟨b_it, b_js⟩: a small product for each side instead of whole gradients. Where tokens
// are many and the matrix is small, multiplying the gradients out is cheaper; the cheaper way is taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/autodiff/tape.hpp"
#include "kernels/tangent/detail/window.hpp"

namespace taugrid::tangent::detail {

/// Whether the products of the two sides of a matrix block that is used once take fewer multiplications than
/// its per-sample gradients and their products; or these gradients, n times `size` numbers, are more than
/// `workspace`.
bool by_sides_is_better(double tokens, double out, double in, double size, const Window& window,
                        std::int64_t logits, std::int64_t workspace);

class GramOfUses {
 public:
  /// Adds up all uses of `block`. `workspace`: numbers that may be held; what this object holds is taken off.
  GramOfUses(std::vector<const autodiff::Use*> uses, const autodiff::Block& block, const autodiff::Tape& tape,
             const Window& window, std::int64_t logits, std::int64_t& workspace);

  /// Whether it takes one output's gradient, add(), or those of all uses together, add_all().
  bool of_one_output() const { return uses_.size() == 1 && way_ != Way::pairs_of_uses; }
  /// Adds the share of one logit, from the gradient of the use's output.
  void add(at::Tensor& kernel, const at::Tensor& gradient) const;
  /// The same from the gradients of the tape's outputs (undefined: none flows).
  void add_all(at::Tensor& kernel, const std::vector<at::Tensor>& gradients) const;

 private:
  enum class Way { multiplied_out, by_sides, pairs_of_uses };
  void add_by_sides(at::Tensor& kernel, const at::Tensor& gradient) const;
  void add_pairs(at::Tensor& kernel, const std::vector<at::Tensor>& gradients) const;

  std::vector<const autodiff::Use*> uses_;
  const autodiff::Block& block_;
  Window window_;
  autodiff::GradientParts parts_;  // of the first
  Way way_ = Way::multiplied_out;
  at::Tensor fixed_products_;  // of the side that no gradient changes, where it fits
};

}  // namespace taugrid::tangent::detail
