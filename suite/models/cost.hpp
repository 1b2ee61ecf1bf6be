// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What passes of a model take, counted from its own template: flops, and numbers in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "suite/models/encoder.hpp"

namespace taugrid::models {

/// The cost of one input, sequences of `tokens` (0: of full length), of which the decoder is given `decoded`
/// tokens and the vocabulary's logits are read at each (0: its start, and none). F is one forward pass. Model
/// flops count each product of it once again for each factor that a further pass asks for: a tangent pass
/// takes 3 F with the value, a backward pass F for the activations and F for the weights.
class Cost {
 public:
  explicit Cost(const Encoder& encoder, std::int64_t tokens = 0, std::int64_t decoded = 0);

  double forward() const { return forward_; }  ///< F
  /// Flops of the gradient in the weights: of products with trained blocks (a flag a block, empty: all), and
  /// of those that have no block as a factor, whose other factor is an activation too.
  double weight_gradient(const std::vector<bool>& trained) const;

  double passing() const { return passing_; }  ///< numbers alive at once in a forward pass
  double passing_by_batch() const {
    return passing_by_batch_;
  }                                                            ///< where the batch's own statistics are taken
  double passing_tangent() const { return passing_tangent_; }  ///< with the tangent beside it
  double kept() const { return kept_; }                        ///< numbers that a backward pass finds again
  double alive_in_step() const { return alive_; }              ///< at most, of a step: kept ones and the pass
  double alive_in_linear_step() const { return alive_linear_; }  ///< with the tangent beside it
  double alive_on_tape() const { return alive_on_tape_; }        ///< with what an NTK records
  /// The uses of a recording pass, for tangent::ntk_work_space().
  const std::vector<autodiff::Meter::MatrixUse>& matrix_uses() const { return matrix_uses_; }

 private:
  double forward_ = 0, passing_ = 0, passing_by_batch_ = 0, passing_tangent_ = 0, kept_ = 0, alive_ = 0,
         alive_linear_ = 0, alive_on_tape_ = 0;
  std::vector<autodiff::Meter::MatrixUse> matrix_uses_;
  std::vector<double> by_block_;
};

}  // namespace taugrid::models
