// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/bench/training_step.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "suite/bench/fixture.hpp"
#include "suite/bench/model_work.hpp"

namespace taugrid::bench {
namespace {

training::AdamWSettings with_decay() {
  training::AdamWSettings settings;
  settings.weight_decay = weight_decay;
  return settings;
}

}  // namespace

TrainingStep::TrainingStep(at::Tensor theta, const autodiff::Layout& layout, std::vector<bool> trained,
                           Loss loss)
    : theta_(std::move(theta)),
      layout_(&layout),
      trained_(std::move(trained)),
      loss_(std::move(loss)),
      settings_(with_decay()),
      adamw_(theta_, layout, trained_, settings_) {}

void TrainingStep::run() {
  if (!first_.defined()) first_ = theta_.clone();
  losses_.push_back(loss_(theta_, gradient_));
  training::clip_norm(gradient_, clip);
  adamw_.step(gradient_, learning_rate);
}

at::Tensor TrainingStep::on_all_blocks(const at::Tensor& of_trained_blocks) const {
  auto whole = at::zeros_like(theta_, at::kDouble);
  std::int64_t from = 0;
  for (std::size_t i = 0; i < layout_->blocks().size(); ++i) {
    if (!trained_.empty() && !trained_[i]) continue;
    const auto& block = layout_->blocks()[i];
    whole.narrow(0, block.offset, block.count).copy_(of_trained_blocks.narrow(0, from, block.count));
    from += block.count;
  }
  return whole;
}

/// θ' − θ [P] in float64, from the moments as they stand.
at::Tensor TrainingStep::moved_by_adamw(const at::Tensor& gradient) const {
  store::TensorFile state;
  adamw_.save(state);
  std::vector<at::Tensor> firsts, seconds;
  for (int i = 0; state.tensors.contains("adamw.first." + std::to_string(i)); ++i) {
    firsts.push_back(state.tensors.at("adamw.first." + std::to_string(i)));
    seconds.push_back(state.tensors.at("adamw.second." + std::to_string(i)));
  }
  const double t = state.tensors.at("adamw.steps.0").item<double>() + 1;
  const auto g = gradient * std::min(1.0, clip / (gradient.norm().item<double>() + 1e-6));
  const auto& [beta1, beta2, epsilon, decay] = settings_;
  const auto m = beta1 * at::cat(firsts).to(at::kDouble) + (1 - beta1) * g;
  const auto v = beta2 * at::cat(seconds).to(at::kDouble) + (1 - beta2) * g.square();
  const auto adapted = (m / (1 - std::pow(beta1, t))) / ((v / (1 - std::pow(beta2, t))).sqrt() + epsilon);
  const auto is_trained = on_all_blocks(at::ones_like(adapted));
  return -learning_rate * (on_all_blocks(adapted) + decay * is_trained * theta_.to(at::kDouble));
}

double TrainingStep::error(const ExactLoss& exact_loss) {
  if (!first_.defined()) first_ = theta_.clone();
  const auto at_first = first_.to(at::kDouble);
  at::Tensor gradient;
  loss_(first_, gradient);
  gradient = gradient.to(at::kDouble);
  const double length = gradient.norm().item<double>(), h = 1e-5;
  const auto direction = on_all_blocks(gradient) / length;
  const double slope =
      (exact_loss(at_first + h * direction) - exact_loss(at_first - h * direction)) / (2 * h);

  const auto before = theta_.to(at::kDouble).clone();
  loss_(theta_, gradient);
  gradient = gradient.to(at::kDouble);
  const auto expected_move = moved_by_adamw(gradient);
  run();
  losses_.pop_back();  // the peers compare the timed steps alone
  return std::max(relative(length, slope), relative(theta_.to(at::kDouble) - before, expected_move));
}

}  // namespace taugrid::bench
