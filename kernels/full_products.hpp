// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How much of a float32 a GPU's products and convolutions keep.
#pragma once

#include <ATen/Context.h>

namespace taugrid {

/// Whether products and convolutions of float32 may keep 10 bits of mantissa (TF32), 3e-4 of a number.
/// LibTorch begins with full products, but with reduced convolutions.
inline void allow_reduced_products(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

/// While it lives, a GPU's products of float32 keep all their mantissa, also with precision "tf32": for
/// Hessian and NTK products, which are differences of nearly equal numbers.
class FullProducts {
 public:
  FullProducts() : reduced_(at::globalContext().allowTF32CuBLAS()) {
    if (reduced_) allow_reduced_products(false);
  }
  ~FullProducts() {
    if (reduced_) allow_reduced_products(true);
  }
  FullProducts(const FullProducts&) = delete;
  FullProducts& operator=(const FullProducts&) = delete;

 private:
  bool reduced_;
};

}  // namespace taugrid
