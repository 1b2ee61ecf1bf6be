// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A preloaded stand-in for a machine whose matrix product is wrong: each at::mm on the host is 1 % too large.
// Other products (of batches, with a bias, of vectors) are right.
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace {

at::Tensor too_large(const at::Tensor& a, const at::Tensor& b) {
  return at::addmm(at::zeros({1}, a.options()), a, b, /*beta=*/0, /*alpha=*/1.01);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CPU, library) { library.impl("mm", too_large); }
