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
      {.name = "standard"},                                       // f(x; θ)
      {.name = "linear", .linear = true},                         // f(x; θ0) + J(x)(θ − θ0)
      {.name = "posthoc", .linear = true, .source = "standard"},  // paper 1, section 3
      {.name = "attention", .groups = {attention_weight}},        // Wq, Wk, Wv, Wo (paper 4)
      {.name = "attention+bias", .groups = {attention_weight, attention_bias}},  // its ablations, table 5
      {.name = "attention+mlp", .groups = {attention_weight, mlp_weight}},
      {.name = "attention+mlp+bias", .groups = {attention_weight, attention_bias, mlp_weight, mlp_bias}},
      {.name = "attention_posthoc", .linear = true, .source = "attention"},   // its kernel behaviour test
      {.name = "tau_jp", .linear = true, .penalty = Penalty::cyclic},         // paper 3, eq. 11
      {.name = "tau_jp_strict", .linear = true, .penalty = Penalty::strict},  // paper 3, eq. 10
      {.name = "tau_jp_incremental", .linear = true, .penalty = Penalty::earlier},  // section 5.3.1
      {.name = "tau_jp_continue", .linear = true, .penalty = Penalty::cyclic, .start = "linear"},  // 5.3.2
      {.name = "multitask", .joint = true},
      {.name = "multitask_linear", .linear = true, .joint = true},
  };
  return all;
}

at::Tensor joined(const std::vector<Part>& parts) {
  if (parts.size() == 1) return parts[0].pixels;
  std::vector<at::Tensor> pixels;
  for (const auto& part : parts) pixels.push_back(part.pixels);
  return at::cat(pixels);
}

/// Σ of the parts' cross-entropies of the outputs z, each part's rows in turn.
at::Tensor cross_entropies(const std::vector<Part>& parts, const at::Tensor& z) {
  at::Tensor sum;
  std::int64_t row = 0;
  for (const auto& part : parts) {
    const auto n = part.pixels.size(0);
    if (part.head != nullptr) {
      const auto logits = part.head->logits(z.narrow(0, row, n));
      const auto loss =
          at::cross_entropy_loss(logits, part.labels, std::nullopt, at::Reduction::Sum) * part.weight;
      sum = sum.defined() ? sum + loss : loss;
    }
    row += n;
  }
  return sum;
}

/// Adds the penalties' gradient in z, 2·weight·J(x)τ, to their rows of `g`; returns Σ weight·‖J(x)τ‖².
at::Tensor penalties(const std::vector<Part>& parts, const at::Tensor& tangent, at::Tensor& g) {
  auto sum = at::zeros({}, tangent.options().dtype(at::kDouble));
  std::int64_t row = 0;
  for (const auto& part : parts) {
    const auto n = part.pixels.size(0);
    if (part.head == nullptr) {
      const auto t = tangent.narrow(0, row, n);
      sum.add_(t.to(at::kDouble).square().sum(), part.weight);
      g.narrow(0, row, n).add_(t, 2 * part.weight);
    }
    row += n;
  }
  return sum;
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

std::int64_t trained_parameters(const std::vector<bool>& trained, const autodiff::Layout& layout) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    if (trained.empty() || trained[i]) count += layout.blocks()[i].count;
  }
  return count;
}

double step_passes(const Regime& regime, const autodiff::Layout& layout) {
  const auto trained = trained_blocks(regime, layout);
  double all = 0, some = 0;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    if (layout.blocks()[i].shape.size() < 2) continue;  // matrices alone make products
    const auto count = static_cast<double>(layout.blocks()[i].count);
    all += count;
    if (trained.empty() || trained[i]) some += count;
  }
  return 2 + some / all + (regime.linear ? 2 : 0);
}

TrainingLoss::TrainingLoss(const models::Encoder& encoder, const Regime& regime, const at::Tensor& theta0,
                           std::optional<at::ScalarType> type)
    : encoder_(encoder),
      regime_(regime),
      theta0_(theta0),
      type_(type.value_or(theta0.scalar_type())),
      trained_(trained_blocks(regime, encoder.layout())) {}

LossValue TrainingLoss::operator()(const at::Tensor& theta, const std::vector<Part>& parts,
                                   at::Tensor& gradient, const autodiff::Buckets* buckets) const {
  const auto& layout = encoder_.layout();
  const auto pixels = joined(parts).to(type_);
  const auto none = at::zeros({}, theta.options().dtype(at::kDouble));
  if (pixels.size(0) == 0) {  // this rank's share of a small batch
    gradient = at::zeros({trained_parameters(trained_, layout)}, theta.options());
    if (buckets != nullptr) buckets->all_ready(gradient);
    return {none, none};
  }
  if (!regime_.linear) {
    for (const auto& part : parts) {
      if (part.head == nullptr) throw std::invalid_argument("a τJp penalty needs a linearised model");
    }
    const auto blocks = autodiff::leaves(layout, theta.to(type_), trained_);
    const auto loss = cross_entropies(parts, encoder_.encode(blocks, pixels).to(theta.scalar_type()));
    gradient = autodiff::pull_back(blocks, loss, at::ones_like(loss), theta.scalar_type(), buckets);
    return {loss.detach().to(at::kDouble), none};
  }
  // J is taken at θ0, so the gradient in θ is Jᵀg, g the gradient in the linearised encoder's output.
  const auto blocks = autodiff::leaves(layout, theta0_.to(type_), trained_);
  const auto tau = (theta - theta0_).to(type_);
  const auto f = autodiff::linearised(blocks, layout.views(tau), [&](const std::vector<autodiff::Dual>& p) {
    return encoder_.encode(p, pixels);
  });
  auto z = (f.value.detach() + f.tangent).to(theta.scalar_type()).requires_grad_(true);
  const auto loss = cross_entropies(parts, z);
  auto g = torch::autograd::grad({loss}, {z})[0];
  const auto penalty = penalties(parts, f.tangent, g);
  gradient = autodiff::pull_back(blocks, f.value, g.to(type_), theta.scalar_type(), buckets);
  return {loss.detach().to(at::kDouble), penalty};
}

}  // namespace taugrid::experiments
