// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The places of a symmetric operator that are not zero.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace taugrid::spectral::detail {

/// Where A·v is zero for a random v, a row of A is zero, and so is its column: vectors do without these
/// places. Of a text model's Hessian they are the rows of words that no text has, most of the vocabulary.
/// Places count in runs of 128 numbers.
class Reached {
 public:
  /// image [n]: A·v.
  explicit Reached(const at::Tensor& image);

  /// Whether a quarter of the places or more are zero, and not all.
  bool leaves_out_much() const;
  /// [n] → [m], the places that count.
  at::Tensor narrowed(const at::Tensor& whole) const;
  /// [m] → [n], zero elsewhere. The memory belongs to this object, and is used again.
  const at::Tensor& widened(const at::Tensor& part);

 private:
  std::int64_t length_, runs_;  // a rest behind the last run always counts
  at::Tensor reached_;          // int64, of runs
  at::Tensor whole_;
};

}  // namespace taugrid::spectral::detail
