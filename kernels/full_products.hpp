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

/// What multiplies float32 on the host.
enum class HostProducts {
  blas,    ///< LibTorch's BLAS, as it begins
  onednn,  ///< oneDNN, where it rounds no factors: comm::fastest_host_products() knows where
  /// oneDNN, which may round the factors of products and convolutions to bfloat16. It keeps 7 bits of
  /// mantissa, 2e-3 of a number; sums stay float32.
  rounded
};

/// For this process. oneDNN gets products of float32 only where LibTorch is told that factors may be rounded,
/// whether it rounds them or not.
inline void set_host_products(HostProducts products) {
  const auto precision = [](bool may_be_rounded) {
    return may_be_rounded ? at::Float32Precision::BF16 : at::Float32Precision::IEEE;
  };
  auto& context = at::globalContext();
  context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL,
                              precision(products != HostProducts::blas));
  context.setFloat32Precision(at::Float32Backend::MKLDNN, at::Float32Op::CONV,
                              precision(products == HostProducts::rounded));
}

inline HostProducts host_products_in_use() {
  const auto may_be_rounded = [](at::Float32Op operation) {
    return at::globalContext().float32Precision(at::Float32Backend::MKLDNN, operation) ==
           at::Float32Precision::BF16;
  };
  if (!may_be_rounded(at::Float32Op::MATMUL)) return HostProducts::blas;
  return may_be_rounded(at::Float32Op::CONV) ? HostProducts::rounded : HostProducts::onednn;
}

/// While it lives, these products are taken in place of those before.
class WithHostProducts {
 public:
  explicit WithHostProducts(HostProducts products) : before_(host_products_in_use()) {
    if (products != before_) set_host_products(products);
  }
  ~WithHostProducts() {
    if (host_products_in_use() != before_) set_host_products(before_);
  }
  WithHostProducts(const WithHostProducts&) = delete;
  WithHostProducts& operator=(const WithHostProducts&) = delete;

 private:
  HostProducts before_;
};

/// While it lives, products of float32 keep all their mantissa, whatever a run's precision is: for Hessian
/// and NTK products, which are differences of nearly equal numbers, and for all that is no pass of a model.
class FullProducts {
 public:
  FullProducts() : reduced_(at::globalContext().allowTF32CuBLAS()), on_host_(full_on_host()) {
    if (reduced_) allow_reduced_products(false);
  }
  ~FullProducts() {
    if (reduced_) allow_reduced_products(true);
  }
  FullProducts(const FullProducts&) = delete;
  FullProducts& operator=(const FullProducts&) = delete;

 private:
  static HostProducts full_on_host() {
    const auto now = host_products_in_use();
    return now == HostProducts::rounded ? HostProducts::blas : now;
  }
  bool reduced_;
  WithHostProducts on_host_;
};

}  // namespace taugrid
