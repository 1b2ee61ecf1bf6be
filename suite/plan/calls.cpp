// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One call of each kind of work in experiments/tally.cpp, as the experiments make it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <stdexcept>

#include "kernels/autodiff/products.hpp"
#include "kernels/metrics/metrics.hpp"
#include "kernels/tangent/ntk.hpp"
#include "suite/bench/machine.hpp"
#include "suite/experiments/adamw.hpp"
#include "suite/experiments/full_products.hpp"
#include "suite/experiments/regime.hpp"
#include "suite/experiments/tally.hpp"
#include "suite/plan/calibrate.hpp"

namespace taugrid::plan {
namespace {

using experiments::Study;

at::Tensor random_pixels(const Study& study, std::int64_t n) {
  const auto side = study.encoder().image_size();
  return at::rand({n, study.encoder().channels(), side, side}).to(study.device());
}

models::Head random_head(const Study& study, std::int64_t classes) {
  const auto weight = at::randn({classes, study.encoder().features()}).to(study.device());
  return {weight / weight.norm(2, 1, true), 100};
}

at::Tensor random_labels(const Study& study, std::int64_t n) {
  return at::randint(10, {n}, at::kLong).to(study.device());
}

at::Tensor random_theta(const Study& study) { return study.encoder().random_theta(0).to(study.device()); }

/// A training step without its update of θ: the learning rate is 0.
struct Step {
  Step(const Study& study, const std::string& name, std::int64_t inputs)
      : regime(experiments::regime(name)),
        theta0(random_theta(study)),
        theta(theta0 + 1e-3),
        loss(study.encoder(), regime, theta0, study.compute_type()),
        optimiser(theta, study.layout(), experiments::trained_blocks(regime, study.layout()), {}),
        head(random_head(study, 10)),
        part{random_pixels(study, inputs), random_labels(study, inputs), &head,
             1.0 / static_cast<double>(inputs)} {}

  void gradient_alone() { loss(theta, {part}, gradient); }
  void whole() {
    gradient_alone();
    experiments::clip_norm(gradient, 1);
    optimiser.step(gradient, 0);
  }

  const experiments::Regime& regime;
  at::Tensor theta0, theta, gradient;
  experiments::TrainingLoss loss;
  experiments::AdamW optimiser;
  models::Head head;
  experiments::Part part;
};

Call train(const Study& study, const std::string& name, std::int64_t n) {
  const auto step = std::make_shared<Step>(study, name, n);
  return {[step] { step->whole(); }, static_cast<double>(n) * study.encoder().forward_flops() *
                                         experiments::step_passes(step->regime, study.layout())};
}

Call forward(const Study& study, std::int64_t n) {
  const auto theta = random_theta(study), pixels = random_pixels(study, n).to(study.compute_type());
  return {[&study, theta, pixels] {
            const at::NoGradGuard no_grad;
            study.encoder().encode(study.layout().views(theta.to(study.compute_type())), pixels);
          },
          static_cast<double>(n) * study.encoder().forward_flops()};
}

Call tangent(const Study& study, std::int64_t n) {
  const auto theta = random_theta(study).to(study.compute_type()),
             pixels = random_pixels(study, n).to(study.compute_type());
  const auto tau = 1e-3 * theta;
  return {[&study, theta, tau, pixels] {
            const at::NoGradGuard no_grad;
            autodiff::jvp(
                study.layout(),
                [&](const std::vector<autodiff::Dual>& p) { return study.encoder().encode(p, pixels); },
                theta, tau);
          },
          3 * static_cast<double>(n) * study.encoder().forward_flops()};
}

/// The graph of the gradient, and two products.
Call hessian(const Study& study, std::int64_t n) {
  const auto theta = random_theta(study), pixels = random_pixels(study, n);
  const auto head = random_head(study, 10);
  const auto labels = random_labels(study, n);
  return {[&study, theta, pixels, head, labels] {
            const experiments::FullProducts full;
            const autodiff::HessianVectorProduct product(
                study.layout(),
                [&](const std::vector<at::Tensor>& p) {
                  return at::cross_entropy_loss(head.logits(study.encoder().encode(p, pixels)), labels);
                },
                theta);
            product(product(theta));
          },
          15 * static_cast<double>(n) * study.encoder().forward_flops()};
}

/// Value, tangent and transposed product, as a linear step's gradient.
Call linear_hessian(const Study& study, std::int64_t n) {
  const auto step = std::make_shared<Step>(study, "linear", n);
  return {[step] {
            const experiments::FullProducts full;
            step->gradient_alone();
          },
          5 * static_cast<double>(n) * study.encoder().forward_flops()};
}

Call gram(const Study& study, std::int64_t n, std::int64_t rows) {
  const auto theta = random_theta(study), pixels = random_pixels(study, n);
  const auto head = random_head(study, 10);
  rows = std::min(rows, n);
  return {[&study, theta, pixels, head, rows] {
            const experiments::FullProducts full;
            tangent::ntk_gram(study.layout(),
                              [&](const std::vector<autodiff::Recorded>& p) {
                                return head.logits(study.encoder().encode(p, pixels));
                              },
                              theta, {0, 1}, {0, rows});
          },
          experiments::gram_flops(study.encoder(), n, rows, 2)};
}

Call logits(const Study& study, std::int64_t n, std::int64_t classes) {
  const auto z = at::randn({n, study.encoder().features()}).to(study.device()), other = at::randn_like(z);
  const auto head = random_head(study, classes);
  return {[z, other, head] {
            const at::NoGradGuard no_grad;
            metrics::predictions(head.logits(z.clone().add_(other, 0.5).add_(other, 0.25)));
          },
          experiments::logits_flops(study.encoder(), n, classes)};
}

Call divergence(const Study& study, std::int64_t n) {
  const auto p = at::randn({n, study.encoder().features()}).to(study.device()), q = at::randn_like(p);
  return {[p, q] { metrics::kl_sum(p, q); }, experiments::divergence_flops(study.encoder(), n)};
}

Call exchange(std::int64_t n) {
  const auto mine = at::zeros({n}), theirs = at::ones({n});
  return {[mine, theirs] { mine.add_(theirs); }, static_cast<double>(n)};
}

Call on_host_or_device(const Study& study, const std::string& kind, std::int64_t inputs, std::int64_t width) {
  if (kind == "gradient") {  // no kind of work: safe on several threads at once
    const auto step = std::make_shared<Step>(study, "standard", inputs);
    return {[step] { step->gradient_alone(); },
            3 * static_cast<double>(inputs) * study.encoder().forward_flops()};
  }
  if (kind.starts_with("train/")) return train(study, kind.substr(6), inputs);
  if (kind == "forward") return forward(study, inputs);
  if (kind == "tangent") return tangent(study, inputs);
  if (kind == "hessian/standard") return hessian(study, inputs);
  if (kind == "hessian/linear") return linear_hessian(study, inputs);
  if (kind == "gram") return gram(study, inputs, width);
  if (kind == "logits") return logits(study, inputs, width);
  if (kind == "divergence") return divergence(study, inputs);
  if (kind == "exchange") return exchange(inputs);
  throw std::logic_error("no measurement of work " + kind);
}

}  // namespace

Call make_call(const Study& study, const std::string& kind, std::int64_t inputs, std::int64_t width) {
  auto call = on_host_or_device(study, kind, inputs, width);
  if (!study.device().is_cpu())
    call.run = [run = call.run, device = study.device()] { bench::run_on(device, run); };
  return call;
}

}  // namespace taugrid::plan
