// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/regime.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/autodiff/products.hpp"

namespace taugrid::experiments {
namespace {

const std::vector<Regime>& regimes() {
  using enum autodiff::Kind;
  static const std::vector<Regime> all = {
      {"standard", false, {}},  // all parameters of f(x; θ)
      {"linear", true, {}},     // all parameters of f(x; θ0) + J(x)(θ − θ0)
      // Wq, Wk, Wv, Wo of f(x; θ), and the ablations (paper 4, table 5)
      {"attention", false, {attention_weight}},
      {"attention+bias", false, {attention_weight, attention_bias}},
      {"attention+mlp", false, {attention_weight, mlp_weight}},
      {"attention+mlp+bias", false, {attention_weight, attention_bias, mlp_weight, mlp_bias}},
  };
  return all;
}

at::Tensor loss_of(const models::Head& head, const at::Tensor& z, const at::Tensor& labels,
                   std::int64_t whole) {
  return at::cross_entropy_loss(head.logits(z), labels, std::nullopt, at::Reduction::Sum) / whole;
}

}  // namespace

const Regime& regime(const std::string& name) {
  for (const auto& r : regimes()) {
    if (r.name == name) return r;
  }
  throw std::invalid_argument("no fine-tuning regime " + name);
}

std::vector<std::string> regime_names() {
  std::vector<std::string> names;
  for (const auto& r : regimes()) names.push_back(r.name);
  return names;
}

std::vector<bool> trained_blocks(const Regime& regime, const autodiff::Layout& layout) {
  std::vector<bool> trained;
  if (regime.groups.empty()) return trained;
  for (const auto& block : layout.blocks()) {
    trained.push_back(std::find(regime.groups.begin(), regime.groups.end(), block.kind) !=
                      regime.groups.end());
  }
  return trained;
}

TrainingLoss::TrainingLoss(const models::Encoder& encoder, const Regime& regime, const at::Tensor& theta0)
    : encoder_(encoder),
      regime_(regime),
      theta0_(theta0),
      trained_(trained_blocks(regime, encoder.layout())) {}

double TrainingLoss::operator()(const at::Tensor& theta, const models::Head& head, const at::Tensor& pixels,
                                const at::Tensor& labels, std::int64_t whole, at::Tensor& gradient) const {
  const auto& layout = encoder_.layout();
  if (!regime_.linear) {
    const auto blocks = autodiff::leaves(layout, theta, trained_);
    const auto loss = loss_of(head, encoder_.encode(blocks, pixels), labels, whole);
    gradient = autodiff::pull_back(layout, blocks, loss, at::ones_like(loss));
    return loss.item<double>();
  }
  // J is taken at θ0, so the gradient in θ is Jᵀg, g the gradient in the linearised encoder's output.
  const auto blocks = autodiff::leaves(layout, theta0_, trained_);
  const auto tau = theta - theta0_;
  const auto f = autodiff::linearised(blocks, layout.views(tau), [&](const std::vector<autodiff::Dual>& p) {
    return encoder_.encode(p, pixels);
  });
  auto z = (f.value.detach() + f.tangent).requires_grad_(true);
  const auto loss = loss_of(head, z, labels, whole);
  const auto g = torch::autograd::grad({loss}, {z})[0];
  gradient = autodiff::pull_back(layout, blocks, f.value, g);
  return loss.item<double>();
}

}  // namespace taugrid::experiments
