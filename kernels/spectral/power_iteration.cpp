// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "kernels/spectral/detail/operator.hpp"
#include "kernels/weights/weights.hpp"

namespace taugrid::spectral {

EigenResult power_iteration(const LinearOperator& apply, const at::Tensor& like,
                            const EigenOptions& options) {
  detail::check_arguments(like, options);
  detail::CountedOperator product(apply);
  EigenResult result{0, std::numeric_limits<double>::infinity(), 0, false,
                     detail::start_vector(like, options.seed)};
  while (true) {
    at::Tensor& v = result.vector;
    const at::Tensor w = product(v);
    result.products = product.products();
    result.value = weights::inner_product(v, w);
    if (product.last_norm() == 0) {
      result.value = result.residual = 0;
    } else if (result.value != 0) {
      result.residual = weights::norm(at::sub(w, v, result.value)) / std::abs(result.value);
    } else {
      result.residual = std::numeric_limits<double>::infinity();
    }
    result.converged = result.residual <= options.tolerance;
    if (result.converged || result.products == options.max_products) return result;
    v = w / product.last_norm();
  }
}

}  // namespace taugrid::spectral
