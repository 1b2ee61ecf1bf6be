// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Local smoothness: the eigenvalue of largest magnitude of the Hessian of the training loss at θt (L in
// the task addition bound of paper 2), by Lanczos or power iteration. Stops on ‖Hv − λv‖/|λ|, not on the
// change of λ, which can stop early.
//
// /smoothness/R/lambda_max, residual, hvp_count [T]; attribute method; sample_index [T,N] of the train split
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "kernels/autodiff/products.hpp"
#include "kernels/spectral/spectral.hpp"
#include "suite/experiments/full_products.hpp"
#include "suite/experiments/placement.hpp"
#include "suite/experiments/regime.hpp"
#include "suite/experiments/tally.hpp"

namespace taugrid::experiments {
namespace {

using autodiff::Dual;

class Smoothness final : public Experiment {
 public:
  Smoothness(const Study& study, std::int64_t points, std::int64_t chunk, bool lanczos,
             spectral::EigenOptions options)
      : Experiment(study), points_(points), chunk_(chunk), lanczos_(lanczos), options_(options) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : study_.regimes()) {
      for (std::size_t t = 0; t < study_.tasks(); ++t) {
        const auto n = study_.sample_size(t, Split::train, points_);
        auto tally = Tally(study_).vectors(name, {t}).sample(t, Split::train, n);
        tally.hessian(regime(name).linear, n, chunk_, products(), lanczos_ ? options_.max_basis : 3);
        units.push_back(
            unit("smoothness/" + name + "/" + study_.task_name(t), tally.stores(3).publishes(3 + points_),
                 study_.vector_needs(name, t),
                 [this, name, t](schedule::UnitContext& context) { return compute(name, t, context); }));
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks());
    for (const auto& name : study_.regimes()) {
      const auto group = "/smoothness/" + name;
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t) {
        boxes.push_back({"smoothness/" + name + "/" + study_.task_name(static_cast<std::size_t>(t)), {t}});
      }
      place(out, done, group + "/lambda_max", store::Element::float64, {tasks}, {"task"}, boxes,
            "lambda_max");
      place(out, done, group + "/residual", store::Element::float64, {tasks}, {"task"}, boxes, "residual",
            "1");
      place(out, done, group + "/hvp_count", store::Element::int64, {tasks}, {"task"}, boxes, "hvp_count",
            "1");
      out.attribute(group, "method", std::string(lanczos_ ? "lanczos" : "power"));
      out.attribute(group, "tolerance", options_.tolerance);
      out.put(group + "/sample_index", study_.sample_index(Split::train, points_),
              {"task", "smoothness_point"});
    }
  }

 private:
  /// How many products the tolerance takes, from experience: Lanczos about 8 for 1e-2, 10 for 1e-3.
  std::int64_t products() const {
    const double wanted = (lanczos_ ? 1 : 3) * (3.2 - 2.2 * std::log10(options_.tolerance));
    return std::clamp<std::int64_t>(std::llround(wanted), 2,
                                    std::max<std::int64_t>(2, options_.max_products));
  }

  store::TensorFile compute(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const FullProducts full;
    const auto& group = context.group;
    const auto& sample = study_.sample(t, Split::train, points_);
    const auto n = sample.labels.size(0);
    const auto tau = study_.task_vector(name, t);
    const auto theta = study_.theta0() + tau;
    const auto head = study_.head(t);

    // This rank's points in chunks. The graph of ∇L is kept where one chunk holds all, and made anew for each
    // product otherwise: half as dear again, and never more than one in memory.
    const auto share = group.share_of(n);
    std::vector<spectral::LinearOperator> parts;
    for (auto i = share.begin; i < share.end(); i += chunk_) {
      const auto m = std::min(chunk_, share.end() - i);
      const auto part = [=, this, &sample] {
        return product(name, theta, tau, head, sample.pixels.narrow(0, i, m), sample.labels.narrow(0, i, m),
                       n);
      };
      if (share.count <= chunk_) {
        parts.push_back(part());
      } else {
        parts.emplace_back([part](const at::Tensor& v) { return part()(v); });
      }
    }
    std::int64_t count = 0;
    const spectral::LinearOperator hessian = [&](const at::Tensor& v) {
      context.stop_if_requested();
      auto sum = at::zeros_like(v);
      for (const auto& part : parts) sum.add_(part(v));
      if (group.size() > 1) group.all_reduce_sum(sum, "Hessian-vector product");
      ++count;
      context.progress(std::min(0.95, 0.05 * static_cast<double>(count)), "product " + std::to_string(count));
      return sum;
    };
    auto options = options_;
    options.seed = seed_for(study_.settings().seed, "hessian/" + study_.task_name(t));
    const auto found = lanczos_ ? spectral::lanczos(hessian, theta, options)
                                : spectral::power_iteration(hessian, theta, options);
    store::TensorFile file;
    file.tensors["lambda_max"] = at::full({}, found.value, at::kDouble);
    file.tensors["residual"] = at::full({}, found.residual, at::kDouble);
    file.tensors["hvp_count"] = at::full({}, found.products, at::kLong);
    return file;
  }

  /// v ↦ H v of the loss over some points, divided by `whole`.
  spectral::LinearOperator product(const std::string& name, const at::Tensor& theta, const at::Tensor& tau,
                                   const models::Head& head, const at::Tensor& pixels,
                                   const at::Tensor& labels, std::int64_t whole) const {
    const auto loss_of = [head, labels, whole](const at::Tensor& z) {
      return at::cross_entropy_loss(head.logits(z), labels, std::nullopt, at::Reduction::Sum) / whole;
    };
    const auto& layout = study_.layout();
    if (!regime(name).linear) {
      auto hessian = std::make_shared<autodiff::HessianVectorProduct>(
          layout,
          [&](const std::vector<at::Tensor>& p) { return loss_of(study_.encoder().encode(p, pixels)); },
          theta);
      return [hessian](const at::Tensor& v) { return (*hessian)(v); };
    }
    // The linearised model is linear in θ, so H = Jᵀ (∇²_z L) J exactly, J at θ0.
    const auto encode = [this, pixels](const std::vector<Dual>& p) {
      return study_.encoder().encode(p, pixels);
    };
    const auto f = autodiff::jvp(layout, encode, study_.theta0(), tau);
    const auto z = (f.value + f.tangent).requires_grad_(true);
    return [this, &layout, encode, loss_of, z](const at::Tensor& v) {
      const auto blocks = autodiff::leaves(layout, study_.theta0());
      const auto jv = autodiff::linearised(blocks, layout.views(v), encode);
      const auto slope = torch::autograd::grad({loss_of(z)}, {z}, {}, true, true)[0];
      const auto curved = torch::autograd::grad({slope}, {z}, {jv.tangent})[0];
      return autodiff::pull_back(blocks, jv.value, curved, v.scalar_type());
    };
  }

  std::int64_t points_, chunk_;
  bool lanczos_;
  spectral::EigenOptions options_;
};

}  // namespace

std::unique_ptr<Experiment> make_smoothness(config::Config& config, const Study& study) {
  if (!config.has("smoothness")) return nullptr;
  auto section = config.section("smoothness");
  spectral::EigenOptions options;
  options.tolerance = section.real("tolerance", 1e-3, {1e-12, 1});
  options.max_products = section.integer("max_products", 100, {1, 1e6});
  options.max_basis = section.integer("max_basis", 24, {2, 1e4});
  const bool lanczos = section.word("method", "lanczos", {"lanczos", "power"}) == "lanczos";
  const auto points = section.integer("points", 512, {1, 1e9});
  return std::make_unique<Smoothness>(study, points, section.integer("chunk", 256, {1, 1e6}), lanczos,
                                      options);
}

}  // namespace taugrid::experiments
