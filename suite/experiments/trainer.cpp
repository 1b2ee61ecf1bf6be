// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/trainer.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "suite/comm/runtime.hpp"

namespace taugrid::experiments {
namespace {

// Numbers of one sum over ranks beside the backward pass: large enough for the network, small enough to begin
// early.
constexpr std::int64_t smallest_sum = std::int64_t{1} << 16, largest_sum = std::int64_t{1} << 23;

Training read(config::Section section, const Training& d) {
  Training t{};
  t.steps = section.integer("steps", d.steps, {1, 1e9});
  t.batch = section.integer("batch", d.batch, {1, 1e6});
  t.warmup = section.integer("warmup_steps", d.warmup, {0, 1e9});
  t.learning_rate = section.real("learning_rate", d.learning_rate, {0, 1e3});
  t.weight_decay = section.real("weight_decay", d.weight_decay, {0, 1e3});
  t.clip = section.real("clip_norm", d.clip, {1e-12, 1e12});
  t.checkpoint_seconds = section.real("checkpoint_seconds", d.checkpoint_seconds, {0, 1e9});
  t.penalty_weight = section.real("penalty_weight", d.penalty_weight, {0, 1e9});
  t.penalty_batch = section.integer("penalty_batch", d.penalty_batch, {1, 1e6});
  t.trace_every = section.integer("trace_every", d.trace_every, {1, 1e9});
  return t;
}

AdamWSettings adamw(const Training& training) {
  AdamWSettings settings;
  settings.weight_decay = training.weight_decay;
  return settings;
}

}  // namespace

std::map<std::string, Training> read_trainings(config::Config& config) {
  // The papers' values: 2,000 steps of 128, 200 of warm-up (paper 1, appendix A); λ and 16 inputs of each
  // other task (paper 3, section 5.2 and its code).
  auto section = config.section("finetune");
  const auto common = read(section, {2000, 128, 200, 1e-5, 0.1, 1.0, 60, 0.1, 16, 10});
  std::map<std::string, Training> all;
  for (const auto& name : regime_names()) {
    // One of a regime not chosen is checked all the same.
    all.emplace(name, section.has(name) ? read(section.sub(name), common) : common);
  }
  return all;
}

std::int64_t trace_points(const Study& study) {
  return std::min<std::int64_t>(study.settings().evaluation_points, 256);
}

std::vector<std::size_t> penalised_tasks(const Study& study, const Regime& regime, std::size_t t) {
  std::vector<std::size_t> all;
  if (regime.penalty == Penalty::none) return all;
  const auto end = regime.penalty == Penalty::earlier ? t : study.tasks_and_control();
  for (std::size_t u = 0; u < end; ++u) {
    if (u != t) all.push_back(u);
  }
  return all;
}

std::int64_t step_inputs(const Study& study, const std::string& name, const Training& training,
                         std::size_t t) {
  const auto& r = regime(name);
  if (r.joint) {  // as many of each task
    const auto tasks = static_cast<std::int64_t>(study.tasks());
    return training.batch / tasks * tasks;
  }
  const auto others = static_cast<std::int64_t>(penalised_tasks(study, r, t).size());
  return training.batch + training.penalty_batch * (r.penalty == Penalty::strict ? others : others > 0);
}

double step_flops(const Study& study, const std::string& name, const Training& training, std::size_t t) {
  return static_cast<double>(step_inputs(study, name, training, t)) * study.encoder().forward_flops() *
         step_passes(regime(name), study.layout());
}

at::Tensor Batches::rows(std::int64_t step) {
  std::vector<at::Tensor> parts;
  auto at = step * batch_;
  for (auto left = batch_; left > 0;) {
    const auto& order = epoch(at / rows_);
    const auto from = at % rows_, count = std::min(left, rows_ - from);
    parts.push_back(order.narrow(0, from, count));
    at += count;
    left -= count;
  }
  return at::cat(parts);
}

const at::Tensor& Batches::epoch(std::int64_t number) {
  if (number != current_) {
    auto generator =
        at::make_generator<at::CPUGeneratorImpl>(seed_for(seed_, "epoch" + std::to_string(number)));
    order_ = at::randperm(rows_, generator, at::kLong);
    current_ = number;
  }
  return order_;
}

Trainer::Trainer(const Study& study, const std::string& name, const Training& training, std::size_t t,
                 const comm::Communicator& group)
    : study_(study),
      regime_(regime(name)),
      training_(training),
      group_(group),
      theta_(study.theta0().clone()),
      loss_(study.encoder(), regime_, study.theta0(), study.compute_type()),
      optimiser_(theta_, study.layout(), trained_blocks(regime_, study.layout()), adamw(training)) {
  if (!regime_.start.empty()) theta_.add_(study.task_vector(regime_.start, t));
  if (group.size() > 1) {
    const auto trained = trained_blocks(regime_, study.layout());
    const auto stretch =
        std::clamp<std::int64_t>(trained_parameters(trained, study.layout()) / 8, smallest_sum, largest_sum);
    buckets_.emplace(study.layout(), trained, stretch, [this](const at::Tensor& part) {
      sums_.push_back(group_.begin_all_reduce_sum(part, "gradient"));
    });
  }
  const auto source = [&](std::size_t u, std::int64_t batch, const std::string& purpose) {
    return Source{u, Batches(study.task(u).train.labels.size(0), batch,
                             seed_for(study.settings().seed, purpose + study.task_name(u)))};
  };
  if (regime_.joint) {
    // A batch holds as many samples of each task as of any other.
    const auto each = training.batch / static_cast<std::int64_t>(study.tasks());
    for (std::size_t u = 0; u < study.tasks(); ++u) own_.push_back(source(u, each, "batches/"));
    return;
  }
  own_.push_back(source(t, training.batch, "batches/"));
  for (const auto u : penalised_tasks(study, regime_, t))
    others_.push_back(source(u, training.penalty_batch, "penalty/" + study.task_name(t) + "/"));
}

Part Trainer::part(std::size_t task, const at::Tensor& rows) const {
  const auto n = rows.size(0);
  const auto share = group_.share_of(n);
  const auto mine = rows.narrow(0, share.begin, share.count);
  return {study_.pixels(task, Split::train, mine), study_.labels(task, Split::train, mine), nullptr,
          1 / static_cast<double>(n)};
}

std::vector<Part> Trainer::parts(std::int64_t step) {
  std::vector<Part> all;
  for (auto& source : own_) {
    all.push_back(part(source.task, source.batches.rows(step)));
    all.back().head = &study_.head(source.task);
    all.back().weight /= static_cast<double>(own_.size());
  }
  if (others_.empty()) return all;
  const auto penalise = [&](Source& source, std::int64_t turn) {
    all.push_back(part(source.task, source.batches.rows(turn)));
    all.back().weight *= training_.penalty_weight;
  };
  if (regime_.penalty == Penalty::strict) {
    for (auto& source : others_) penalise(source, step);
  } else {
    const auto count = static_cast<std::int64_t>(others_.size());
    penalise(others_[static_cast<std::size_t>(step % count)], step / count);
  }
  return all;
}

std::vector<Part> Trainer::take(std::int64_t step) {
  auto coming = std::exchange(coming_, std::nullopt);
  if (!coming || coming->step != step) return parts(step);
  coming->work.wait();
  for (const auto& part : coming->parts) {
    comm::use_on_current_stream(part.pixels);
    comm::use_on_current_stream(part.labels);
  }
  return std::move(coming->parts);
}

void Trainer::prepare(std::int64_t step) {
  if (study_.device().is_cpu() || step >= training_.steps) return;
  Coming next{step, {}, {}};
  next.work = comm::beside(study_.device(), [&] { next.parts = parts(step); });
  coming_ = std::move(next);
}

LossValue Trainer::step(std::int64_t number) {
  auto note = [this, last = comm::Runtime::clock()](const char* what) mutable {
    if (spans_ == nullptr) return;
    const double time = comm::Runtime::clock();
    spans_->push_back({what, last, time});
    last = time;
  };
  const auto batch = take(number);
  prepare(number + 1);
  note("batch");
  auto value = loss_(theta_, batch, gradient_, buckets_ ? &*buckets_ : nullptr);
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
  clip_norm(gradient_, training_.clip);
  optimiser_.step(gradient_,
                  training_.learning_rate * cosine_schedule(number, training_.warmup, training_.steps));
  note("clipping and AdamW");
  return value;
}

LossWatch::LossWatch(at::Device device, std::int64_t step)
    : every_(device.is_cpu() ? 0 : 1), looked_(comm::Runtime::clock()), finite_(step) {}

bool LossWatch::due() const { return comm::Runtime::clock() - looked_ >= every_; }

void LossWatch::look(const std::vector<at::Tensor>& losses, std::int64_t step) {
  const auto recent = [&](const at::Tensor& each) { return each.narrow(0, finite_, step - finite_); };
  auto sum = recent(losses[0]);
  for (std::size_t i = 1; i < losses.size(); ++i) sum = sum + recent(losses[i]);
  const auto wrong = at::isfinite(sum).logical_not().nonzero();
  if (wrong.size(0) != 0)
    throw std::runtime_error("the training loss is not finite at step " +
                             std::to_string(finite_ + wrong[0].item<std::int64_t>()) +
                             "; a smaller learning_rate may help");
  finite_ = step;
  looked_ = comm::Runtime::clock();
}

void Trainer::save(store::TensorFile& state) const {
  state.tensors["theta"] = theta_;
  optimiser_.save(state);
}

void Trainer::load(const store::TensorFile& state) {
  theta_.copy_(state.tensors.at("theta"));
  optimiser_.load(state);
}

}  // namespace taugrid::experiments
