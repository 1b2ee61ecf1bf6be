// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/update.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "suite/comm/clock.hpp"

namespace taugrid::training {
namespace {

constexpr double momentum = 0.1;  // with which stored statistics follow the batches': PyTorch's default

std::variant<AdamW, GradientDescent> optimiser(const Training& training, const at::Tensor& theta,
                                               const autodiff::Layout& layout,
                                               const std::vector<bool>& trained,
                                               const std::optional<Factors>& factors) {
  if (factors) return optimiser(training, factors->values(), factors->layout(), {}, std::nullopt);
  if (training.sgd) return GradientDescent(theta, layout, trained, training.weight_decay);
  return AdamW(theta, layout, trained, {.weight_decay = training.weight_decay});
}

std::optional<Factors> first_factors(const study::Study& study, const study::Regime& regime,
                                     const models::State& begin, std::uint64_t seed) {
  if (!regime.low_rank) return std::nullopt;
  return Factors(study.low_rank(), study.model.layout(), study.trained_blocks(regime.name), begin.theta,
                 seed);
}

models::State copy_of(const models::State& state) {
  return {state.theta.clone(), state.buffers.defined() ? state.buffers.clone() : at::Tensor()};
}

}  // namespace

Update::Update(const study::Study& study, const study::Regime& regime, const Training& training,
               const models::State& begin, const comm::Communicator& group, std::uint64_t seed)
    : study_(study),
      training_(training),
      group_(group),
      state_(copy_of(begin)),
      mixes_(!regime.linear && study.model.encoder().mixes_in_training()),
      loss_(study.model.encoder(), regime, study.model.start(), study.trained_blocks(regime.name),
            study.evaluation.compute_type()),
      factors_(first_factors(study, regime, begin, seed)),
      optimiser_(optimiser(training, state_.theta, study.model.layout(), study.trained_blocks(regime.name),
                           factors_)) {
  if (group.size() == 1) return;
  const auto& layout = study.model.layout();
  const auto trained = study.trained_blocks(regime.name);
  const auto stretch = stretch_of_sums(study::trained_parameters(trained, layout));
  buckets_.emplace(layout, trained, stretch, [this](const at::Tensor& part) {
    sums_.push_back(group_.begin_all_reduce_sum(part, "gradient"));
  });
}

void Update::begin_step() { noted_ = comm::steady_seconds(); }

void Update::note(const char* what) {
  if (spans_ == nullptr) return;
  const double time = comm::steady_seconds();
  spans_->push_back({what, noted_, time});
  noted_ = time;
}

LossValue Update::operator()(const std::vector<Term>& terms, double learning_rate) {
  autodiff::BatchStatistics statistics;
  if (mixes_ && group_.size() > 1)
    statistics.sum_over_ranks = [this](at::Tensor& sums) { group_.all_reduce_sum(sums, "batch statistics"); };
  auto value =
      loss_(state_.theta, terms, gradient_, buckets_ ? &*buckets_ : nullptr, mixes_ ? &statistics : nullptr);
  note("forward and backward");
  if (group_.size() > 1) {
    auto sum = at::stack({value.loss, value.penalty});
    group_.all_reduce_sum(sum, "loss");
    value = {sum[0], sum[1]};
    for (auto& part : sums_) part.wait();
    note("wait for the sums");
    if (spans_ != nullptr) {
      for (const auto& part : sums_) spans_->push_back({"sum", part.times().begun, part.times().ended});
    }
    sums_.clear();
  }
  auto gradient = factors_ ? factors_->gradient(gradient_) : gradient_;
  clip_norm(gradient, training_.clip);
  std::visit([&](auto& rule) { rule.step(gradient, learning_rate); }, optimiser_);
  if (factors_) factors_->move(state_.theta);
  if (mixes_) follow(statistics);
  note("clipping and update");
  return value;
}

// Stored statistics go a tenth of the way to the batch's, the same on all ranks. Those of frozen stages,
// which are the first and have no part in the step, stay as they are.
void Update::follow(const autodiff::BatchStatistics& statistics) {
  const auto views = study_.model.encoder().buffers().views(state_.buffers);
  const auto& of_batch = statistics.moments;
  for (std::size_t i = 0; i < of_batch.size(); ++i)
    views[views.size() - of_batch.size() + i].mul_(1 - momentum).add_(of_batch[i].to(at::kFloat), momentum);
}

void Update::save(store::TensorFile& file) const {
  file.tensors["theta"] = state_.theta;
  if (state_.buffers.defined()) file.tensors["buffers"] = state_.buffers;
  if (factors_) factors_->save(file);
  if (const auto* adamw = std::get_if<AdamW>(&optimiser_)) adamw->save(file);
}

}  // namespace taugrid::training
