// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Means of directions, tensor by tensor. Of tensors x_t with norms n_t, directions u_t = x_t/n_t and weights
// w_t the result is the mean norm Σ w_t n_t in a mean direction m:
//
//   multislerp   m = Σ w_t u_t / ‖Σ w_t u_t‖ (mergekit's Multi-SLERP). From there mergekit takes a step in
//                the tangent space, Σ w_t (u_t − ⟨u_t, m⟩ m), which is zero: Σ w_t u_t has the direction m.
//   karcher      m with the least Σ w_t Ω_t², Ω_t the angle between m and u_t (Karcher 1977), w_t = 1/T:
//                m ← cos‖v‖·m + sin‖v‖·v/‖v‖,   v = Σ w_t (Ω_t / sin Ω_t)(u_t − cos Ω_t · m),
//                from the above on, until ‖v‖ < tol.
//
// Both lie in the span of the tensors, so that inner products tell all of them.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "suite/merging/vectors/combined_by_tensor.hpp"

namespace taugrid::merging {
namespace {

constexpr config::Meaning of_what = "What tensors are: those of the task vectors, or the models' own";

/// ‖Σ c_t u_t‖ by the directions' inner products.
double norm_of(const at::Tensor& c, const at::Tensor& gram) {
  return std::sqrt(std::max(0.0, c.dot(gram.mv(c)).item<double>()));
}

class MultiSlerp final : public CombinedByTensor {
 public:
  MultiSlerp(bool normalizes, double eps, bool of_models)
      : normalizes_(normalizes), eps_(eps), of_models_(of_models) {}

  void check(const std::string& what, const std::vector<double>& weights) const override {
    if (normalizes_) require_sum(what, weights);
  }

 protected:
  bool of_models() const override { return of_models_; }
  at::Tensor factors(const at::Tensor& gram, const std::vector<double>& weights) const override {
    auto w = at::tensor(weights, at::kDouble);
    if (normalizes_) w = w / w.sum();
    const auto norms = gram.diagonal().sqrt();
    const auto divisors = norms + eps_;
    const auto of_units = at::where(divisors > 0, w / divisors, 0.0);
    const double length = norm_of(of_units, gram);
    constexpr double rounding = 1e-7;                 // less may be that of its square
    if (length < std::max(eps_, rounding)) return w;  // directions cancel: the mean of the tensors
    return of_units * (w.dot(norms) / length);
  }

 private:
  bool normalizes_;
  double eps_;
  bool of_models_;
};

class Karcher final : public CombinedByTensor {
 public:
  Karcher(std::int64_t steps, double tolerance, bool of_models)
      : steps_(steps), tolerance_(tolerance), of_models_(of_models) {}

  void check(const std::string& what, const std::vector<double>& weights) const override {
    require_alike(what, "karcher", weights);
  }

 protected:
  bool of_models() const override { return of_models_; }
  at::Tensor factors(const at::Tensor& gram, const std::vector<double>&) const override {
    const auto norms = gram.diagonal().sqrt();
    if (gram.size(0) == 1) return at::ones_like(norms);
    const auto is_there = norms > tolerance_;
    const auto count = is_there.sum().item<double>();
    if (count == 0) return at::zeros_like(norms);
    const auto inverse = at::where(is_there, 1 / norms, 0.0);
    const auto cosines = gram * inverse.outer(inverse);
    const auto w = is_there.to(at::kDouble) / count;
    return norms.mean() * mean_direction(cosines, w) * inverse;
  }

 private:
  /// c of m = Σ c_t u_t.
  at::Tensor mean_direction(const at::Tensor& cosines, const at::Tensor& w) const {
    auto c = w;
    if (const double length = norm_of(c, cosines); length <= tolerance_) {
      c = at::zeros_like(w);
      c[w.argmax()] = 1;  // they cancel: the first direction that there is
    } else {
      c = c / length;
    }
    for (std::int64_t step = 0; step < steps_; ++step) {
      const auto along = cosines.mv(c).clamp(-1, 1);
      const auto angle = along.acos();
      // Neither the direction itself nor the opposite one says where to go.
      const auto pulls = w * at::where((angle <= tolerance_) | (angle >= std::numbers::pi - tolerance_), 0.0,
                                       angle / angle.sin());
      const auto tangent = pulls - pulls.dot(along) * c;
      const double length = norm_of(tangent, cosines);
      if (length <= tolerance_) break;
      c = std::cos(length) * c + std::sin(length) / length * tangent;
      c = c / norm_of(c, cosines);
    }
    return c;
  }

  std::int64_t steps_;
  double tolerance_;
  bool of_models_;
};

std::shared_ptr<const VectorMethod> make_multislerp(config::Section parameters) {
  const bool normalizes = parameters.flag(
      "normalize_weights", "Whether weights are divided by their sum; else they are taken as they are", true);
  const double eps =
      parameters.real("eps", "Is added to norms, and below it a mean direction is none: tensors are averaged",
                      1e-8, {0, 1e-3});
  return std::make_shared<MultiSlerp>(normalizes, eps, read_of_models(parameters, of_what, false));
}

std::shared_ptr<const VectorMethod> make_karcher(config::Section parameters) {
  const auto steps = parameters.integer("max_iter", "The most steps that are taken", 10, {0, 1e6});
  const double tolerance = parameters.real(
      "tol", "A step that is shorter is not taken, and tensors with smaller norms have no direction", 1e-5,
      {0, 1});
  return std::make_shared<Karcher>(steps, tolerance, read_of_models(parameters, of_what, true));
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    multislerp, 72, make_multislerp, nullptr,
    "Multi-SLERP (mergekit): the vectors' weighted mean direction with their mean norm, tensor "
    "by tensor",
    false)
TAUGRID_MERGING_METHOD(karcher, 73, make_karcher, nullptr,
                       "The Karcher mean of the models' directions with their mean norm, tensor by tensor "
                       "(Karcher 1977, mergekit)",
                       false)
