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

#include <algorithm>
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

/// The square of a larger cosine is 1 in float32.
constexpr double linear_in_float32 = 1 - 0x1p-26;

/// t of nuslerp: one half where weights cancel.
double second_share(const std::vector<double>& w) {
  constexpr double cancelled = 1e-6;
  const double sum = w[0] + w[1];
  return std::fabs(sum) < cancelled ? 0.5 : w[1] / sum;
}

class NuSlerp final : public CombinedByTensor {
 public:
  explicit NuSlerp(bool of_models) : of_models_(of_models) {}

  void check(const std::string& what, const std::vector<double>& w) const override {
    require_two(what, "nuslerp", w);
  }

 protected:
  bool of_models() const override { return of_models_; }
  at::Tensor factors(const at::Tensor& gram, const std::vector<double>& w) const override {
    return interpolated(second_share(w), gram, linear_in_float32);
  }

 private:
  bool of_models_;
};

/// NuSLERP of each vector along one dimension of a tensor by itself.
class NuSlerpAlong final : public VectorMethod {
 public:
  NuSlerpAlong(bool along_first, bool of_models) : along_first_(along_first), of_models_(of_models) {}

  void check(const std::string& what, const std::vector<double>& w) const override {
    require_two(what, "nuslerp", w);
  }
  bool needs_start() const override { return !of_models_; }
  /// Vectors along the last dimension come one after another; of the first, whole tensors are held.
  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t) const override {
    std::int64_t largest = 0;
    for (const auto& tensor : tensors) largest = std::max(largest, tensor.range.count);
    if (!along_first_) return {};
    const auto numbers = static_cast<double>(largest);
    return {.bytes = 8 * (of_models_ ? 8 : 5) * numbers, .at_once = numbers};
  }

 protected:
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& w, const Sink& sink,
                   const Team&) const override {
    const double t = second_share(w);
    auto which = vectors.all();
    if (of_models_ && vectors.has_start()) which.push_back(TaskVectors::theta0);
    std::int64_t nonzero = 0;
    for (const auto& tensor : vectors.tensors()) {
      if (tensor.range.count == 0) continue;
      const auto last = tensor.shape.empty() ? 1 : tensor.shape.back();
      const auto rows = tensor.shape.empty() ? 1 : tensor.shape.front();
      vectors.visit(which, tensor.range, along_first_ ? tensor.range.count : last,
                    [&](std::int64_t begin, std::span<const at::Tensor> x) {
                      std::vector<at::Tensor> of;  // along the dimension 1
                      for (const auto& each : x)
                        of.push_back(along_first_ ? each.view({rows, -1}).t().to(at::kDouble)
                                                  : each.view({-1, last}).to(at::kDouble));
                      auto merged = along(of, t).to(at::kFloat);
                      if (along_first_) merged = merged.t();
                      merged = merged.contiguous().view({-1});
                      nonzero += at::count_nonzero(merged).item<std::int64_t>();
                      sink.put(begin, merged);
                    });
    }
    return nonzero;
  }

 private:
  /// τ of a, b and, where tensors are the models', θ0: each [n, dimension].
  static at::Tensor along(const std::vector<at::Tensor>& x, double t) {
    const bool of_models = x.size() > 2;
    const auto a = of_models ? x[0] + x[2] : x[0], b = of_models ? x[1] + x[2] : x[1];
    const auto norms = ((a * a).sum(1, true) * (b * b).sum(1, true)).sqrt();
    const auto cosine = at::where(norms > 0, (a * b).sum(1, true) / norms, 0.0).clamp(-1, 1);
    const auto is_linear = cosine.abs() > linear_in_float32;
    const auto angle = cosine.acos(), sine = angle.sin();
    const auto merged = at::where(is_linear, 1 - t, ((1 - t) * angle).sin() / sine) * a +
                        at::where(is_linear, t, (t * angle).sin() / sine) * b;
    return of_models ? merged - x[2] : merged;
  }

  bool along_first_;
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
  const bool of_models =
      read_of_models(parameters,
                     "What is interpolated: the models' tensors (mergekit without base_model), or those of "
                     "the task vectors (mergekit with one)",
                     false);
  const auto along = parameters.word(
      "along",
      "What has an angle: a whole tensor, or each vector along the last dimension of a tensor (mergekit's "
      "nuslerp_flatten = false) or along the first (and its nuslerp_row_wise = true)",
      "tensor", {"tensor", "last", "first"});
  if (along == "tensor") return std::make_shared<NuSlerp>(of_models);
  return std::make_shared<NuSlerpAlong>(along == "first", of_models);
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
