// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/adamw.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "kernels/range.hpp"
#include "kernels/weights/weights.hpp"

namespace taugrid::training {
namespace {

/// The trained numbers of θ: neighbours are one stretch, for one pass over memory.
std::vector<Range> stretches(const autodiff::Layout& layout, const std::vector<bool>& trained) {
  const auto& blocks = layout.blocks();
  std::vector<Range> all;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!trained.empty() && !trained[i]) continue;
    if (!all.empty() && all.back().end() == blocks[i].offset) {
      all.back().count += blocks[i].count;
    } else {
      all.push_back({blocks[i].offset, blocks[i].count});
    }
  }
  return all;
}

}  // namespace

AdamW::AdamW(const at::Tensor& theta, const autodiff::Layout& layout, const std::vector<bool>& trained,
             const AdamWSettings& settings)
    : settings_(settings) {
  std::int64_t from = 0;
  for (const auto& part : stretches(layout, trained)) {
    segments_.push_back({from, part.count, theta.detach().narrow(0, part.begin, part.count), {}, {}, {}});
    from += part.count;
  }
  for (auto& s : segments_) {
    s.first = at::zeros_like(s.theta);
    s.second = at::zeros_like(s.theta);
    s.steps = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(theta.device()));
  }
}

void AdamW::step(const at::Tensor& gradient, double learning_rate) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> theta, gradients, first, second, steps;
  for (auto& s : segments_) {
    s.steps.add_(1);
    theta.push_back(s.theta);
    gradients.push_back(gradient.narrow(0, s.from, s.count));
    first.push_back(s.first);
    second.push_back(s.second);
    steps.push_back(s.steps);
  }
  at::_fused_adamw_(theta, gradients, first, second, {}, steps, learning_rate, settings_.beta1,
                    settings_.beta2, settings_.weight_decay, settings_.epsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

void AdamW::save(store::TensorFile& file, const std::string& name) const {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto n = std::to_string(i);
    file.tensors[name + ".first." + n] = segments_[i].first;
    file.tensors[name + ".second." + n] = segments_[i].second;
    file.tensors[name + ".steps." + n] = segments_[i].steps.view({1});
  }
}

void AdamW::load(const store::TensorFile& file, const std::string& name) {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const auto n = std::to_string(i);
    segments_[i].first.copy_(file.tensors.at(name + ".first." + n));
    segments_[i].second.copy_(file.tensors.at(name + ".second." + n));
    segments_[i].steps.copy_(file.tensors.at(name + ".steps." + n).squeeze(0));
  }
}

GradientDescent::GradientDescent(const at::Tensor& theta, const autodiff::Layout& layout,
                                 const std::vector<bool>& trained, double weight_decay)
    : weight_decay_(weight_decay) {
  for (const auto& part : stretches(layout, trained))
    theta_.push_back(theta.detach().narrow(0, part.begin, part.count));
}

void GradientDescent::step(const at::Tensor& gradient, double learning_rate) {
  const at::NoGradGuard no_grad;
  std::int64_t from = 0;
  for (auto& part : theta_) {
    const auto count = part.size(0);
    part.mul_(1 - learning_rate * weight_decay_).sub_(gradient.narrow(0, from, count), learning_rate);
    from += count;
  }
}

double constant_schedule(std::int64_t step, std::int64_t warmup) {
  return step < warmup ? static_cast<double>(step + 1) / static_cast<double>(warmup) : 1;
}

namespace {

/// The share of the steps behind warm-up that is done.
double done_behind(std::int64_t step, std::int64_t warmup, std::int64_t steps) {
  return static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, steps - warmup));
}

}  // namespace

double cosine_schedule(std::int64_t step, std::int64_t warmup, std::int64_t steps) {
  if (step < warmup) return constant_schedule(step, warmup);
  return 0.5 * (1 + std::cos(std::numbers::pi * done_behind(step, warmup, steps)));
}

double linear_schedule(std::int64_t step, std::int64_t warmup, std::int64_t steps) {
  return step < warmup ? constant_schedule(step, warmup) : 1 - done_behind(step, warmup, steps);
}

void clip_norm(at::Tensor& gradient, double limit) {
  if (!gradient.is_cpu()) {  // without a wait of the host
    const auto norm = at::linalg_vector_norm(gradient, 2, std::nullopt, false, at::kDouble);
    gradient.mul_(at::where(norm > limit, limit / (norm + 1e-6), 1.0).to(gradient.scalar_type()));
    return;
  }
  const double norm = weights::norm(gradient);  // in double: LibTorch's own loses digits on long vectors
  if (norm > limit) gradient.mul_(limit / (norm + 1e-6));
}

}  // namespace taugrid::training
