// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/weights/detail/checks.hpp"

#include <ATen/ATen.h>

#include <functional>

#include "kernels/require.hpp"

namespace taugrid::weights::detail {
namespace {

bool is_real(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
}

// Bytes are compared rather than storage: two views of one flat vector may well be disjoint.
bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (a.device() != b.device() || a.numel() == 0 || b.numel() == 0) return false;
  const auto* a_begin = static_cast<const char*>(a.const_data_ptr());
  const auto* b_begin = static_cast<const char*>(b.const_data_ptr());
  const std::less<> before;
  return before(a_begin, b_begin + b.nbytes()) && before(b_begin, a_begin + a.nbytes());
}

}  // namespace

void check_vector(const at::Tensor& vector, const std::string& name) {
  require(vector.defined(), name, " is undefined");
  require(vector.layout() == at::kStrided, name, " is not a dense tensor");
  require(vector.dim() == 1, name, " has ", vector.dim(), " dimensions, expected 1");
  require(is_real(vector), name, " is ", vector.scalar_type(), ", expected float32 or float64");
  require(vector.is_contiguous(), name, " is not contiguous");
}

void check_vectors(std::span<const at::Tensor> vectors, const at::Tensor& like, const std::string& name) {
  for (std::size_t t = 0; t < vectors.size(); ++t) {
    const at::Tensor& vector = vectors[t];
    const std::string entry = name + "[" + std::to_string(t) + "]";
    check_vector(vector, entry);
    require(vector.numel() == like.numel(), entry, " has ", vector.numel(), " elements, expected ",
            like.numel());
    require(vector.scalar_type() == like.scalar_type(), entry, " is ", vector.scalar_type(), ", expected ",
            like.scalar_type());
    require(vector.device() == like.device(), entry, " is on ", vector.device(), ", expected ",
            like.device());
  }
}

void check_coefficients(const at::Tensor& alpha, std::size_t tasks) {
  require(alpha.defined(), "alpha is undefined");
  require(alpha.dim() == 2, "alpha has ", alpha.dim(), " dimensions, expected 2: [K,T]");
  require(is_real(alpha), "alpha is ", alpha.scalar_type(), ", expected float32 or float64");
  require(alpha.size(1) == static_cast<std::int64_t>(tasks), "alpha has ", alpha.size(1), " columns for ",
          tasks, " task vectors");
}

void check_out(const at::Tensor& out, std::int64_t rows, const at::Tensor& theta0,
               std::span<const at::Tensor> tau) {
  require(out.defined(), "out is undefined");
  require(out.dim() == 2 && out.size(0) == rows && out.size(1) == theta0.numel(), "out is ", out.sizes(),
          ", expected [", rows, ", ", theta0.numel(), "]");
  require(out.scalar_type() == theta0.scalar_type(), "out is ", out.scalar_type(), ", expected ",
          theta0.scalar_type());
  require(out.device() == theta0.device(), "out is on ", out.device(), ", expected ", theta0.device());
  require(out.is_contiguous(), "out is not contiguous");
  require(!overlap(out, theta0), "out overlaps theta0");
  for (std::size_t t = 0; t < tau.size(); ++t) require(!overlap(out, tau[t]), "out overlaps tau[", t, "]");
}

}  // namespace taugrid::weights::detail
