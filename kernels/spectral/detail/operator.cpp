// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/spectral/detail/operator.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "kernels/weights/weights.hpp"

namespace taugrid::spectral::detail {

namespace {

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

}  // namespace

void check_arguments(const at::Tensor& like, const EigenOptions& options) {
  require(like.defined() && like.dim() == 1 && like.numel() > 0,
          "like is not a vector of at least one element");
  require(like.scalar_type() == at::kFloat || like.scalar_type() == at::kDouble,
          "like is neither float32 nor float64");
  require(options.tolerance >= 0, "tolerance is negative or not a number");
  require(options.max_products >= 1, "max_products is below 1");
  require(options.max_basis >= 2, "max_basis is below 2");
}

at::Tensor start_vector(const at::Tensor& like, std::uint64_t seed, const at::Tensor& near) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  at::Tensor vector = at::randn({like.numel()}, generator, at::TensorOptions(like.scalar_type()));
  vector.div_(weights::norm(vector));
  vector = vector.to(like.device());
  if (!near.defined()) return vector;
  require(near.sizes() == like.sizes() && near.scalar_type() == like.scalar_type() &&
              near.device() == like.device(),
          "near is not a vector as like");
  const double length = weights::norm(near);
  if (length < std::numeric_limits<float>::min()) return vector;
  vector.add_(near, 1 / length);
  return vector.div_(weights::norm(vector));
}

at::Tensor CountedOperator::operator()(const at::Tensor& vector) {
  at::Tensor product = apply_(vector);
  ++products_;
  const auto fail = [&](const auto&... parts) {
    std::ostringstream message;
    message << "product " << products_ << " with the operator ";
    (message << ... << parts);
    throw std::runtime_error(message.str());
  };
  if (!product.defined() || product.sizes() != vector.sizes()) fail("is not a vector of ", vector.numel());
  if (product.scalar_type() != vector.scalar_type() || product.device() != vector.device()) {
    fail("is ", product.scalar_type(), " on ", product.device(), ", expected ", vector.scalar_type(), " on ",
         vector.device());
  }
  product = product.detach().contiguous();
  last_norm_ = weights::norm(product);
  if (!std::isfinite(last_norm_)) fail("is not finite");
  return product;
}

}  // namespace taugrid::spectral::detail
