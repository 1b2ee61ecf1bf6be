// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// SLERP, tensor by tensor (Shoemake 1985): of tensors a and b at an angle Ω,
//
//   [sin((1 − t)Ω)·a + sin(tΩ)·b] / sin Ω,   and (1 − t)·a + t·b where |cos Ω| > 0.9995.
//
// a and b are the models' tensors, or those of the task vectors. Fine-tuned models lie so close to each other
// that nearly every tensor of theirs is interpolated linearly: ‖τ‖/‖θ‖ = 0.005 makes cos Ω = 0.99998.
#include <ATen/ATen.h>

#include <array>
#include <cmath>

#include "suite/error.hpp"
#include "suite/merging/vectors/combined_by_tensor.hpp"

namespace taugrid::merging {
namespace {

constexpr double linear_above = 0.9995;

class Slerp final : public CombinedByTensor {
 public:
  Slerp(double t, bool of_models) : t_(t), of_models_(of_models) {}

  void check(const std::string& what, const std::vector<double>& w) const override {
    if (w.size() != 2)
      throw InputError(what + ": slerp interpolates two models, and there are " + std::to_string(w.size()));
    if (w[0] != 1 || w[1] != 1) throw InputError(what + ": slerp takes t in place of weights; expected none");
  }
  bool needs_start() const override { return !of_models_; }
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override {
    return parameter == "t" ? std::make_shared<Slerp>(values.front(), of_models_) : nullptr;
  }

 protected:
  bool sees_start() const override { return of_models_; }
  bool rounds_products() const override { return of_models_; }
  at::Tensor factors(const at::Tensor& gram) const override {
    const auto g = [&](int i, int j) { return gram[i][j].item<double>(); };
    if (!of_models_) {
      const auto [a, b] = factors(g(0, 0), g(0, 1), g(1, 1));
      return at::tensor({a, b}, at::kDouble);
    }
    // The models are θ0 + τ_a and θ0 + τ_b; and [f_a·a + f_b·b] − θ0 has f_a + f_b − 1 of θ0.
    const auto [a, b] = factors(g(0, 0) + 2 * g(0, 2) + g(2, 2), g(0, 1) + g(0, 2) + g(1, 2) + g(2, 2),
                                g(1, 1) + 2 * g(1, 2) + g(2, 2));
    return at::tensor({a, b, a + b - 1}, at::kDouble);
  }

 private:
  /// Factors of a and b, from their inner products.
  std::array<double, 2> factors(double aa, double ab, double bb) const {
    const double cosine =
        aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;  // as mergekit and FusionBench have it
    if (std::fabs(cosine) > linear_above) {              // 1 − t in float32, as mergekit has it
      const auto t = static_cast<float>(t_);
      return {1.0F - t, t};
    }
    const double angle = std::acos(cosine);
    return {std::sin((1 - t_) * angle) / std::sin(angle), std::sin(t_ * angle) / std::sin(angle)};
  }

  double t_;
  bool of_models_;
};

std::shared_ptr<const VectorMethod> make_slerp(config::Section parameters) {
  const auto t = parameters.real("t",
                                 "Where between the first model (0) and the second (1); a recipe's "
                                 "base_model, where it is one of these, is the first (mergekit)",
                                 0.5, {0, 1});
  const auto of =
      parameters.word("of",
                      "What is interpolated: the models' tensors (mergekit, FusionBench), or those of the "
                      "task vectors, of which alone the angles are large enough to matter",
                      "models", {"models", "vectors"});
  return std::make_shared<Slerp>(t, of == "models");
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(slerp, 70, make_slerp, nullptr,
                       "Spherical interpolation of two models, tensor by tensor (Shoemake 1985)", false)
