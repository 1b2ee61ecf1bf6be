// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Model Stock, tensor by tensor (Jang et al. 2024, equation 7): from θ0 towards the models' mean, as far as
// the vectors agree. Of N tensors τ_t whose pairs have the mean cosine c,
//
//   τ = t · (1/N) Σ τ_t,   t = N c / (1 + (N − 1) c).
//
// A vector without length has the cosine 0 with all others. Where the vectors cancel, so that t has no value,
// τ is 0, as in mergekit.
#include <ATen/ATen.h>

#include <cmath>

#include "suite/error.hpp"
#include "suite/merging/vectors/combined_by_tensor.hpp"

namespace taugrid::merging {
namespace {

class ModelStock final : public CombinedByTensor {
 public:
  void check(const std::string& what, const std::vector<double>& weights) const override {
    if (weights.size() < 2)
      throw InputError(what +
                       ": model_stock compares models with each other, and there is one; expected two");
    require_alike(what, "model_stock", weights);
  }

 protected:
  at::Tensor factors(const at::Tensor& gram, const std::vector<double>&) const override {
    constexpr double cancelled = 1e-6;
    const auto norm = gram.diagonal().sqrt();
    const auto cosines = at::nan_to_num(gram / norm.outer(norm), 0, 0, 0);
    const auto count = static_cast<double>(gram.size(0));
    const double off_diagonal = (cosines.sum() - cosines.trace()).item<double>();
    const double cosine = off_diagonal / (count * (count - 1));
    const double denominator = 1 + (count - 1) * cosine;
    const double t = denominator < cancelled ? 0 : count * cosine / denominator;
    return at::full({gram.size(0)}, t / count, at::kDouble);
  }
};

std::shared_ptr<const VectorMethod> make_model_stock(config::Section) {
  return std::make_shared<ModelStock>();
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    model_stock, 65, make_model_stock, nullptr,
    "Model Stock (Jang et al. 2024): from θ0 towards the models' mean, tensor by tensor, as "
    "far as the vectors agree",
    false)
