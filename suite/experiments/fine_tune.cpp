// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fine-tuning: one unit a regime and task. AdamW on the flat vector θ, cosine schedule with warm-up, gradient
// clipping, the head frozen (papers 1 to 4, appendix on experimental details). The model lies in
// RUN/checkpoints/REGIME/TASK once its unit is finished.
//
// /training/R/loss [T, steps], /training/R/seconds [T]
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <chrono>
#include <cmath>
#include <stdexcept>

#include "suite/error.hpp"
#include "suite/experiments/adamw.hpp"
#include "suite/experiments/placement.hpp"
#include "suite/experiments/regime.hpp"

namespace taugrid::experiments {
namespace {

struct Training {
  std::int64_t steps, batch, warmup;
  double learning_rate, weight_decay, clip, checkpoint_seconds;
};

Training read(config::Section section, const Training& d) {
  Training t{};
  t.steps = section.integer("steps", d.steps, {1, 1e9});
  t.batch = section.integer("batch", d.batch, {1, 1e6});
  t.warmup = section.integer("warmup_steps", d.warmup, {0, 1e9});
  t.learning_rate = section.real("learning_rate", d.learning_rate, {0, 1e3});
  t.weight_decay = section.real("weight_decay", d.weight_decay, {0, 1e3});
  t.clip = section.real("clip_norm", d.clip, {1e-12, 1e12});
  t.checkpoint_seconds = section.real("checkpoint_seconds", d.checkpoint_seconds, {0, 1e9});
  return t;
}

/// Rows of one step's batch: epochs of seeded permutations, laid end to end; any step can be found again.
class Batches {
 public:
  Batches(std::int64_t rows, std::int64_t batch, std::uint64_t seed)
      : rows_(rows), batch_(batch), seed_(seed) {}

  at::Tensor rows(std::int64_t step) {
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

 private:
  const at::Tensor& epoch(std::int64_t number) {
    if (number != current_) {
      auto generator =
          at::make_generator<at::CPUGeneratorImpl>(seed_for(seed_, "epoch" + std::to_string(number)));
      order_ = at::randperm(rows_, generator, at::kLong);
      current_ = number;
    }
    return order_;
  }
  std::int64_t rows_, batch_, current_ = -1;
  std::uint64_t seed_;
  at::Tensor order_;
};

class FineTune final : public Experiment {
 public:
  FineTune(const Study& study, std::map<std::string, Training> training)
      : Experiment(study), training_(std::move(training)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : study_.regimes()) {
      const auto& training = training_.at(name);
      const double samples = static_cast<double>(training.steps * training.batch);
      for (std::size_t t = 0; t < study_.tasks(); ++t) {
        // forward 1, backward 2; linear: a tangent pass of 2 besides
        const double cost = samples * study_.encoder().forward_flops() * (regime(name).linear ? 5 : 3);
        units.push_back(
            {"finetune/" + name + "/" + study_.task_name(t),
             cost,
             {},
             [this, name, t](schedule::UnitContext& context) { return compute(name, t, context); }});
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks());
    for (const auto& name : study_.regimes()) {
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t) {
        boxes.push_back({"finetune/" + name + "/" + study_.task_name(static_cast<std::size_t>(t)), {t}});
      }
      const auto group = "/training/" + name;
      place(out, done, group + "/loss", store::Element::float32, {tasks, training_.at(name).steps},
            {"task", "step_" + name}, boxes, "loss", "nat");
      place(out, done, group + "/seconds", store::Element::float64, {tasks}, {"task"}, boxes, "seconds", "s");
    }
  }

 private:
  store::TensorFile compute(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const auto& training = training_.at(name);
    const auto& task = study_.task(t);
    const auto& group = context.group;
    const auto began = std::chrono::steady_clock::now();
    const auto since = [&began] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };

    auto theta = study_.theta0().clone();
    const TrainingLoss loss(study_.encoder(), regime(name), study_.theta0());
    AdamWSettings adamw;
    adamw.weight_decay = training.weight_decay;
    AdamW optimiser(theta, study_.layout(), trained_blocks(regime(name), study_.layout()), adamw);
    auto losses = at::zeros({training.steps}, at::kFloat);
    std::int64_t step = 0;
    double seconds_before = 0;

    const auto state_path = context.scratch / "state.safetensors";
    if (std::filesystem::exists(state_path)) {
      const auto state = store::read_safetensors(state_path);
      theta.copy_(state.tensors.at("theta"));
      losses.copy_(state.tensors.at("loss"));
      optimiser.load(state);
      step = std::stoll(state.metadata.at("step"));
      seconds_before = std::stod(state.metadata.at("seconds"));
    }
    const auto save = [&] {
      if (group.rank() != 0) return;
      store::TensorFile state;
      state.tensors["theta"] = theta;
      state.tensors["loss"] = losses;
      state.metadata["step"] = std::to_string(step);
      state.metadata["seconds"] = std::to_string(seconds_before + since());
      optimiser.save(state);
      store::write_safetensors(state_path, state);
    };

    Batches batches(task.train.labels.size(0), training.batch,
                    seed_for(study_.settings().seed, "batches/" + study_.task_name(t)));
    double saved = 0;
    at::Tensor gradient;
    for (; step < training.steps; ++step) {
      if (context.stop.requested(group)) {
        save();
        throw Interrupted("finetune/" + name + "/" + study_.task_name(t) + ": stopped by " +
                          context.stop.reason());
      }
      if (training.checkpoint_seconds > 0 && since() - saved > training.checkpoint_seconds) {
        save();
        saved = since();
      }
      // A batch is dealt to the group's ranks; gradients of its parts add up.
      const auto rows = batches.rows(step);
      const auto share = (training.batch + group.size() - 1) / group.size();
      const auto begin = std::min(training.batch, share * group.rank());
      const auto mine = rows.narrow(0, begin, std::min(training.batch, begin + share) - begin);
      const auto pixels =
          data::normalised_images(task.train.inputs.index_select(0, mine), task.mean, task.std);
      double value = loss(theta, study_.head(t), pixels, task.train.labels.index_select(0, mine),
                          training.batch, gradient);
      if (group.size() > 1) {
        group.all_reduce_sum(gradient, "gradient of " + study_.task_name(t));
        auto sum = at::full({1}, value, at::kDouble);
        group.all_reduce_sum(sum, "loss of " + study_.task_name(t));
        value = sum.item<double>();
      }
      if (!std::isfinite(value)) {
        throw std::runtime_error("the training loss is not finite at step " + std::to_string(step) +
                                 "; a smaller learning_rate may help");
      }
      losses[step] = value;
      clip_norm(gradient, training.clip);
      optimiser.step(gradient,
                     training.learning_rate * cosine_schedule(step, training.warmup, training.steps));
      context.progress(static_cast<double>(step + 1) / static_cast<double>(training.steps),
                       "loss " + std::to_string(value).substr(0, 5));
    }
    if (group.rank() == 0)
      models::write_checkpoint(study_.checkpoint_folder(name, t), study_.encoder(), theta);
    store::TensorFile result;
    result.tensors["loss"] = losses;
    result.tensors["seconds"] = at::full({}, seconds_before + since(), at::kDouble);
    result.metadata["fingerprint"] = models::fingerprint(theta);
    return result;
  }

  std::map<std::string, Training> training_;
};

}  // namespace

std::unique_ptr<Experiment> make_fine_tune(config::Config& config, const Study& study) {
  if (!config.has("finetune")) return nullptr;
  // The papers' values (paper 1, appendix A): 2,000 steps of 128, 200 of warm-up.
  auto section = config.section("finetune");
  const auto common = read(section, {2000, 128, 200, 1e-5, 0.1, 1.0, 60});
  std::map<std::string, Training> training;
  for (const auto& name : regime_names()) {
    // A table [finetune.REGIME] overrides single values; one of a regime not chosen is checked all the same.
    training.emplace(name, section.has(name) ? read(section.sub(name), common) : common);
  }
  return std::make_unique<FineTune>(study, std::move(training));
}

}  // namespace taugrid::experiments
