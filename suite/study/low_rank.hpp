// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Which matrices a regime of low rank moves, and how far: θ0 + s·B·A in each of them, with s = α/r (Hu et al.
// 2021, "LoRA", section 4.1). A [r, in] and B [out, r] are trained; all other parameters stay θ0's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/autodiff/layout.hpp"

namespace taugrid::study {

/// A matrix that is moved, and where it begins in the gradient of the trained blocks, end to end.
struct AdaptedMatrix {
  autodiff::Parameter parameter;
  std::int64_t in_gradient = 0;
  std::int64_t rows() const { return parameter.shape[0]; }     ///< out
  std::int64_t columns() const { return parameter.shape[1]; }  ///< in
};

struct LowRank {
  std::int64_t rank = 8;                  ///< r
  double alpha = 8;                       ///< α
  std::vector<std::string> modules = {};  ///< ends of their names; empty: all of attention and MLPs

  double scale() const { return alpha / static_cast<double>(rank); }  ///< s
  /// Whether the parameter is the matrix of a linear layer of attention or of an MLP, and chosen.
  bool adapts(const autodiff::Parameter& parameter) const;
  /// Whether any parameter of the block is.
  bool adapts(const autodiff::Block& block, const autodiff::Layout& layout) const;
  /// The chosen module that no such matrix belongs to; empty: there is none.
  std::string unmatched(const autodiff::Layout& layout) const;
  /// The adapted matrices of the trained blocks (empty: of all).
  std::vector<AdaptedMatrix> matrices(const autodiff::Layout& layout, const std::vector<bool>& trained) const;
  /// How many numbers A and B have together, of matrices in the trained blocks.
  std::int64_t parameters(const autodiff::Layout& layout, const std::vector<bool>& trained) const;
};

/// The name of the layer that a weight belongs to.
std::string module_of(const autodiff::Parameter& parameter);

}  // namespace taugrid::study
