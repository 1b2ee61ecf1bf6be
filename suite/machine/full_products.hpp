// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Context.h>

namespace taugrid::machine {

/// While it lives, a GPU's products of float32 keep all their mantissa, also with precision "tf32": for
/// Hessian and NTK products, which are differences of nearly equal numbers.
class FullProducts {
 public:
  FullProducts() : reduced_(at::globalContext().allowTF32CuBLAS()) {
    if (reduced_) at::globalContext().setAllowTF32CuBLAS(false);
  }
  ~FullProducts() {
    if (reduced_) at::globalContext().setAllowTF32CuBLAS(true);
  }
  FullProducts(const FullProducts&) = delete;
  FullProducts& operator=(const FullProducts&) = delete;

 private:
  bool reduced_;
};

}  // namespace taugrid::machine
