// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/loss.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>

namespace taugrid::training {
namespace {

using autodiff::Dual;
using models::Blocks;

at::Tensor narrow(const at::Tensor& z, std::int64_t row, std::int64_t n) { return z.narrow(0, row, n); }
Dual narrow(const Dual& z, std::int64_t row, std::int64_t n) {
  return {z.value.narrow(0, row, n), z.tangent.defined() ? z.tangent.narrow(0, row, n) : at::Tensor()};
}

/// Each term's output, of the features z of the joined batch.
template <class T>
std::vector<T> outputs_of(const models::Encoder& encoder, const Blocks<T>& p, const std::vector<Term>& terms,
                          const T& z) {
  std::vector<T> outputs;
  std::int64_t row = 0;
  for (const auto& term : terms) {
    const auto n = term.batch.size();
    outputs.push_back(term.readout->output(encoder, p, narrow(z, row, n), term.batch));
    row += n;
  }
  return outputs;
}

/// −Σ p log(p + ε) of each row's softmax, added up.
at::Tensor entropy(const at::Tensor& logits, double epsilon) {
  const auto log_p = logits.log_softmax(1);
  const auto p = log_p.exp();
  return -(p * (epsilon > 0 ? (p + epsilon).log() : log_p)).sum();
}

/// Σ of the terms' cross-entropies and entropies of their outputs.
at::Tensor cross_entropies(const std::vector<Term>& terms, const std::vector<at::Tensor>& outputs) {
  at::Tensor sum;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].penalty()) continue;
    const auto logits = terms[i].readout->logits(outputs[i]);
    const auto each = terms[i].entropy ? entropy(logits, terms[i].epsilon)
                                       : terms[i].readout->loss(logits, terms[i].labels);
    const auto loss = each * terms[i].weight;
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

/// Adds weight·Σ‖J(x)τ‖² to `sum` and its gradient in the output, 2·weight·J(x)τ, to `g`; or weight·Σ‖J(x)τ‖
/// and weight·J(x)τ/‖J(x)τ‖. `tangent`: J(x)τ [n, width].
void add_penalty(const Term& term, const at::Tensor& tangent, at::Tensor& g, at::Tensor& sum) {
  const auto exact = tangent.to(at::kDouble);
  if (term.form == study::PenaltyForm::squared) {
    sum.add_(exact.square().sum(), term.weight);
    g.add_(tangent, 2 * term.weight);
    return;
  }
  const auto norm = exact.square().sum(1, /*keepdim=*/true).sqrt();
  sum.add_(norm.sum(), term.weight);
  g.add_(at::where(norm > 0, exact / norm, 0.0).to(g.scalar_type()), term.weight);
}

bool outputs_are_features(const std::vector<Term>& terms) {
  return std::all_of(terms.begin(), terms.end(),
                     [](const Term& term) { return term.readout->is_features(); });
}

}  // namespace

TrainingLoss::TrainingLoss(const models::Encoder& encoder, const study::Regime& regime,
                           const models::State& start, std::vector<bool> trained,
                           std::optional<at::ScalarType> type)
    : encoder_(encoder),
      regime_(regime),
      start_(start),
      type_(type.value_or(start.theta.scalar_type())),
      trained_(std::move(trained)) {}

models::Given TrainingLoss::given(const std::vector<Term>& terms) const {
  std::vector<models::Batch> batches;
  for (const auto& term : terms) batches.push_back(term.batch);
  models::Given given{models::joined(batches).to(type_)};
  if (start_.buffers.defined()) given.buffers = encoder_.buffers().views(start_.buffers.to(type_));
  return given;
}

LossValue TrainingLoss::operator()(const at::Tensor& theta, const std::vector<Term>& terms,
                                   at::Tensor& gradient, const autodiff::Buckets* buckets,
                                   autodiff::BatchStatistics* statistics) const {
  std::int64_t samples = 0;
  for (const auto& term : terms) samples += term.batch.size();
  if (samples == 0 && statistics == nullptr) {  // this rank's share of a small batch
    const auto none = at::zeros({}, theta.options().dtype(at::kDouble));
    gradient = at::zeros({study::trained_parameters(trained_, encoder_.layout())}, theta.options());
    if (buckets != nullptr) buckets->all_ready(gradient);
    return {none, none};
  }
  return regime_.linear ? linear(theta, terms, gradient, buckets)
                        : plain(theta, terms, gradient, buckets, statistics);
}

LossValue TrainingLoss::plain(const at::Tensor& theta, const std::vector<Term>& terms, at::Tensor& gradient,
                              const autodiff::Buckets* buckets,
                              autodiff::BatchStatistics* statistics) const {
  for (const auto& term : terms) {
    if (term.penalty()) throw std::invalid_argument("a τJp penalty needs a linearised model");
  }
  auto x = given(terms);
  x.statistics = statistics;
  const auto blocks = autodiff::leaves(encoder_.layout(), theta.to(type_), trained_);
  auto outputs = outputs_of(encoder_, blocks, terms, encoder_.encode(blocks, x));
  for (auto& output : outputs) output = output.to(theta.scalar_type());
  const auto loss = cross_entropies(terms, outputs);
  gradient = autodiff::pull_back(blocks, loss, at::ones_like(loss), theta.scalar_type(), buckets);
  return {loss.detach().to(at::kDouble), at::zeros({}, theta.options().dtype(at::kDouble))};
}

LossValue TrainingLoss::linear(const at::Tensor& theta, const std::vector<Term>& terms, at::Tensor& gradient,
                               const autodiff::Buckets* buckets) const {
  // J is taken at θ0, so the gradient in θ is Jᵀg, g the gradient in the linearised model's output.
  const auto& layout = encoder_.layout();
  const auto x = given(terms);
  const auto blocks = autodiff::leaves(layout, start_.theta.to(type_), trained_);
  const auto tau = layout.views((theta - start_.theta).to(type_));
  const auto p = autodiff::duals(blocks, tau);
  const Dual z = encoder_.encode(p, x);
  auto penalty = at::zeros({}, theta.options().dtype(at::kDouble));
  // Outputs that are features stay one tensor, so that one gradient goes back through the model.
  const bool joined = outputs_are_features(terms);
  const auto outputs = outputs_of(encoder_, p, terms, z);
  const auto at_tangent = [&](const Dual& f) {
    return (f.value.detach() + f.tangent).to(theta.scalar_type()).requires_grad_(true);
  };
  std::vector<at::Tensor> leaves, parts;
  if (joined) {
    leaves.push_back(at_tangent(z));
    std::int64_t row = 0;
    for (const auto& term : terms) {
      parts.push_back(leaves.front().narrow(0, row, term.batch.size()));
      row += term.batch.size();
    }
  } else {
    for (const auto& output : outputs) leaves.push_back(at_tangent(output));
    parts = leaves;
  }
  const auto loss = cross_entropies(terms, parts);
  auto g = torch::autograd::grad({loss}, leaves, {}, {}, false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!g[i].defined()) g[i] = at::zeros_like(leaves[i]);  // of a penalty's output
  }
  std::int64_t row = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto n = terms[i].batch.size();
    auto mine = joined ? g.front().narrow(0, row, n) : g[i];
    if (terms[i].penalty()) add_penalty(terms[i], outputs[i].tangent, mine, penalty);
    row += n;
  }
  if (joined) {
    gradient = autodiff::pull_back(blocks, z.value, g.front().to(type_), theta.scalar_type(), buckets);
  } else {
    std::vector<at::Tensor> values, cotangents;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      values.push_back(outputs[i].value.flatten());
      cotangents.push_back(g[i].to(type_).flatten());
    }
    gradient = autodiff::pull_back(blocks, at::cat(values), at::cat(cotangents), theta.scalar_type(), buckets);
  }
  return {loss.detach().to(at::kDouble), penalty};
}

double step_flops_an_input(const study::Regime& regime, const std::vector<bool>& trained,
                           const models::Cost& cost) {
  return 2 * cost.forward() + cost.weight_gradient(trained) + (regime.linear ? 2 * cost.forward() : 0);
}

}  // namespace taugrid::training
