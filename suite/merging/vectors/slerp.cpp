// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// SLERP, tensor by tensor (Shoemake 1985): of tensors a and b at an angle Ω,
//
//   [sin((1 − t)Ω)·a + sin(tΩ)·b] / sin Ω,   and (1 − t)·a + t·b where |cos Ω| is close to 1:
//
// above 0.9995 of slerp, and, of nuslerp, where float32 no longer tells it from 1. The t of nuslerp is the
// second of two weights, of which the sum is 1.
//
// a and b are the models' tensors, or those of the task vectors. Fine-tuned models lie so close to each other
// that nearly every tensor of theirs is interpolated linearly: ‖τ‖/‖θ‖ = 0.005 makes cos Ω = 0.99998.
#include <ATen/ATen.h>

#include <cmath>

#include "suite/error.hpp"
#include "suite/merging/vectors/combined_by_tensor.hpp"

namespace taugrid::merging {
namespace {

void require_two(const std::string& what, const char* method, const std::vector<double>& w) {
  if (w.size() != 2)
    throw InputError(what + ": " + method + " interpolates two models, and there are " +
                     std::to_string(w.size()));
}

/// Factors of a and b, from their inner products [2,2].
at::Tensor interpolated(double t, const at::Tensor& gram, double linear_above) {
  const auto g = [&](int i, int j) { return gram[i][j].item<double>(); };
  const double cosine = g(0, 0) > 0 && g(1, 1) > 0 ? g(0, 1) / std::sqrt(g(0, 0) * g(1, 1))
                                                   : 0;  // as mergekit and FusionBench have it
  if (std::fabs(cosine) > linear_above) {                // 1 − t in float32, as mergekit has it
    const auto second = static_cast<float>(t);
    return at::tensor({static_cast<double>(1.0F - second), static_cast<double>(second)}, at::kDouble);
  }
  const double angle = std::acos(cosine);
  return at::tensor({std::sin((1 - t) * angle) / std::sin(angle), std::sin(t * angle) / std::sin(angle)},
                    at::kDouble);
}

class Slerp final : public CombinedByTensor {
 public:
  Slerp(double t, bool of_models) : t_(t), of_models_(of_models) {}

  void check(const std::string& what, const std::vector<double>& w) const override {
    require_two(what, "slerp", w);
    if (w[0] != 1 || w[1] != 1) throw InputError(what + ": slerp takes t in place of weights; expected none");
  }
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override {
    return parameter == "t" ? std::make_shared<Slerp>(values.front(), of_models_) : nullptr;
  }

 protected:
  bool of_models() const override { return of_models_; }
  bool rounds_products() const override { return of_models_; }
  at::Tensor factors(const at::Tensor& gram, const std::vector<double>&) const override {
    constexpr double linear_above = 0.9995;
    return interpolated(t_, gram, linear_above);
  }

 private:
  double t_;
  bool of_models_;
};

class NuSlerp final : public CombinedByTensor {
 public:
  explicit NuSlerp(bool of_models) : of_models_(of_models) {}

  void check(const std::string& what, const std::vector<double>& w) const override {
    require_two(what, "nuslerp", w);
  }

 protected:
  bool of_models() const override { return of_models_; }
  at::Tensor factors(const at::Tensor& gram, const std::vector<double>& w) const override {
    constexpr double cancelled = 1e-6, linear_above = 1 - 0x1p-26;
    const double sum = w[0] + w[1];
    return interpolated(std::fabs(sum) < cancelled ? 0.5 : w[1] / sum, gram, linear_above);
  }

 private:
  bool of_models_;
};

std::shared_ptr<const VectorMethod> make_slerp(config::Section parameters) {
  const auto t = parameters.real("t",
                                 "Where between the first model (0) and the second (1); a recipe's "
                                 "base_model, where it is one of these, is the first (mergekit)",
                                 0.5, {0, 1});
  const bool of_models = read_of_models(
      parameters,
      "What is interpolated: the models' tensors (mergekit, FusionBench), or those of the task vectors, of "
      "which alone the angles are large enough to matter",
      true);
  return std::make_shared<Slerp>(t, of_models);
}

std::shared_ptr<const VectorMethod> make_nuslerp(config::Section parameters) {
  return std::make_shared<NuSlerp>(
      read_of_models(parameters,
                     "What is interpolated: the models' tensors (mergekit without base_model), or those of "
                     "the task vectors (mergekit with one)",
                     false));
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    nuslerp, 71, make_nuslerp, nullptr,
    "NuSLERP (mergekit): spherical interpolation of two models, tensor by tensor, as far as "
    "their weights say",
    false)
TAUGRID_MERGING_METHOD(slerp, 70, make_slerp, nullptr,
                       "Spherical interpolation of two models, tensor by tensor (Shoemake 1985)", false)
