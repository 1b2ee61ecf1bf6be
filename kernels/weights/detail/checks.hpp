// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

namespace taugrid::weights::detail {

/// A one-dimensional, contiguous, strided float32 or float64 tensor; `name` opens the message.
void check_vector(const at::Tensor& vector, const std::string& name);

/// Every vector as above, and of the length, dtype and device of `like`.
void check_vectors(std::span<const at::Tensor> vectors, const at::Tensor& like, const std::string& name);

/// alpha [K, tasks], float32 or float64.
void check_coefficients(const at::Tensor& alpha, std::size_t tasks);

/// out [rows, P], contiguous, like theta0, sharing no byte with theta0 or tau.
void check_out(const at::Tensor& out, std::int64_t rows, const at::Tensor& theta0,
               std::span<const at::Tensor> tau);

}  // namespace taugrid::weights::detail
