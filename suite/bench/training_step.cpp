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
  // In place: of a large model each of these takes as much memory as its step.
  auto adapted = at::cat(firsts).to(at::kDouble).mul_(beta1).add_(g, 1 - beta1).div_(1 - std::pow(beta1, t));
  {
    auto v = at::cat(seconds).to(at::kDouble).mul_(beta2).addcmul_(g, g, 1 - beta2);
    adapted.div_(v.div_(1 - std::pow(beta2, t)).sqrt_().add_(epsilon));
  }
  auto move = on_all_blocks(adapted);
  for (std::size_t i = 0; i < layout_->blocks().size(); ++i) {
    if (!trained_.empty() && !trained_[i]) continue;
    const auto& block = layout_->blocks()[i];
    move.narrow(0, block.offset, block.count)
        .add_(theta_.narrow(0, block.offset, block.count).to(at::kDouble), decay);
  }
  return move.mul_(-learning_rate);
}

double TrainingStep::error(const ExactLoss& exact_loss) {
  if (!first_.defined()) first_ = theta_.clone();
  at::Tensor gradient;
  double length = 0, slope = 0;
  {
    loss_(first_, gradient);
    length = gradient.norm(2, at::kDouble).item<double>();
    constexpr double h = 1e-5;
    const auto direction = on_all_blocks(gradient).div_(length);
    const auto exactly = [&](double a) { return exact_loss(first_.to(at::kDouble).add_(direction, a)); };
    slope = (exactly(h) - exactly(-h)) / (2 * h);
  }

  const auto before = theta_.clone();
  loss_(theta_, gradient);
  const auto expected_move = moved_by_adamw(gradient.to(at::kDouble));
  gradient = at::Tensor();
  run();
  losses_.pop_back();  // the peers compare the timed steps alone
  const auto move = theta_.to(at::kDouble).sub_(before);
  return std::max(relative(length, slope), relative(move, expected_move));
}

}  // namespace taugrid::bench
