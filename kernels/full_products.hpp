// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How much of a float32 LibTorch's products and convolutions keep.
#pragma once

#include <ATen/Context.h>

namespace taugrid {

/// Whether a GPU's products and convolutions of float32 may keep 10 bits of mantissa (TF32), 3e-4 of a
/// number. LibTorch begins with full products, but with reduced convolutions.
inline void allow_reduced_products(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

/// Whether the host's products and convolutions of float32 may round their factors to bfloat16, which keeps 7
/// bits of mantissa, 2e-3 of a number; sums stay float32. LibTorch begins without.
inline void allow_rounded_factors(bool allowed) {
  const auto precision = allowed ? at::Float32Precision::BF16 : at::Float32Precision::IEEE;
  for (const auto operation : {at::Float32Op::MATMUL, at::Float32Op::CONV})
    at::globalContext().setFloat32Precision(at::Float32Backend::MKLDNN, operation, precision);
}

inline bool rounded_factors_allowed() {
  return at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL) ==
         at::Float32Precision::BF16;
}

/// While it lives, products of float32 keep all their mantissa, whatever a run's precision is: for Hessian
/// and NTK products, which are differences of nearly equal numbers, and for all that is no pass of a model.
class FullProducts {
 public:
  FullProducts() : reduced_(at::globalContext().allowTF32CuBLAS()), rounded_(rounded_factors_allowed()) {
    if (reduced_) allow_reduced_products(false);
    if (rounded_) allow_rounded_factors(false);
  }
  ~FullProducts() {
    if (reduced_) allow_reduced_products(true);
    if (rounded_) allow_rounded_factors(true);
  }
  FullProducts(const FullProducts&) = delete;
  FullProducts& operator=(const FullProducts&) = delete;

 private:
  bool reduced_, rounded_;
};

}  // namespace taugrid
