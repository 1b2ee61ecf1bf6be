// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The same functions in ATen, for devices Kokkos was not built for, and as the tests' oracle.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

namespace taugrid::weights::detail {

/// alpha [K,T] on the CPU. Block by block, each vector is read twice and written once, and each row written
/// once.
void combine_aten(const at::Tensor& theta0, std::span<const at::Tensor> tau, const at::Tensor& alpha,
                  at::Tensor& out);

/// [T], on the device of `a`, without a wait for it. In double.
at::Tensor inner_products_aten(const at::Tensor& a, std::span<const at::Tensor> vectors);

/// Block by block, so that no vector is held twice. At least one vector.
at::Tensor gram_aten(std::span<const at::Tensor> vectors);

}  // namespace taugrid::weights::detail
