// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fine-tuning: one unit a regime and task, and one a joint regime. The model lies in
// RUN/checkpoints/REGIME/TASK (or REGIME/joint) once its unit is finished. A regime that goes on from
// another's task vectors also keeps its tangent features on the way, for its trace.
//
// /training/R/loss [T, steps], /training/R/penalty [T, steps], /training/R/seconds [T]; joint: without [T]
#include <ATen/ATen.h>

#include <chrono>

#include "suite/error.hpp"
#include "suite/experiments/placement.hpp"
#include "suite/experiments/tally.hpp"

namespace taugrid::experiments {
namespace {

class FineTune final : public Experiment {
 public:
  FineTune(const Study& study, std::map<std::string, Training> training)
      : Experiment(study), training_(std::move(training)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : study_.regimes()) {
      if (!study_.trains(name)) continue;
      for (std::size_t t = 0; t < study_.tasks(); ++t) {
        units.push_back(
            unit(key(name, t), tally(name, t), study_.start_needs(name, t),
                 [this, name, t](schedule::UnitContext& context) { return compute(name, t, context); }));
      }
    }
    for (const auto& name : study_.joint_regimes()) {
      units.push_back(
          unit("finetune/" + name + "/joint", tally(name, 0), {},
               [this, name](schedule::UnitContext& context) { return compute(name, 0, context); }));
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks());
    for (const auto& name : study_.regimes()) {
      if (!study_.trains(name)) continue;
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t) boxes.push_back({key(name, static_cast<std::size_t>(t)), {t}});
      const auto group = "/training/" + name;
      const auto steps = training_.at(name).steps;
      const std::vector<std::string> axes = {"task", "step_" + name};
      place(out, done, group + "/loss", store::Element::float32, {tasks, steps}, axes, boxes, "loss", "nat");
      if (regime(name).penalty != Penalty::none) {
        place(out, done, group + "/penalty", store::Element::float32, {tasks, steps}, axes, boxes, "penalty");
        out.attribute(group, "penalty_weight", training_.at(name).penalty_weight);
      }
      place(out, done, group + "/seconds", store::Element::float64, {tasks}, {"task"}, boxes, "seconds", "s");
    }
    for (const auto& name : study_.joint_regimes()) {
      const auto file = done.folder.read_unit("finetune/" + name + "/joint");
      out.put("/training/" + name + "/loss", file.tensors.at("loss"), {"step_" + name}, "nat");
      out.put("/training/" + name + "/seconds", file.tensors.at("seconds"), {}, "s");
    }
  }

 private:
  std::string key(const std::string& name, std::size_t t) const {
    return "finetune/" + name + "/" + study_.task_name(t);
  }

  Tally tally(const std::string& name, std::size_t t) const {
    const auto& training = training_.at(name);
    Tally tally(study_);
    tally.train(name, training, t, training.steps).checkpoint();
    tally.stores(2 * training.steps, sizeof(float)).publishes(2 * training.steps, sizeof(float));
    if (regime(name).start.empty()) return tally;
    const auto traced =
        training.steps / training.trace_every + 1 + (training.steps % training.trace_every > 0);
    tally.vectors(regime(name).start, {t});
    for (std::size_t b = 0; b < study_.tasks(); ++b) {
      const auto n = study_.sample_size(b, Split::test, trace_points(study_));
      tally.sample(b, Split::test, n).tangent(n, traced);
      tally.stores(traced * n * study_.encoder().features(), sizeof(float));
    }
    return tally;
  }

  /// J(x)τ on each task's test points, end to end: Σ n · features numbers.
  at::Tensor tangents(const at::Tensor& tau, const comm::Communicator& group) const {
    std::vector<at::Tensor> all;
    for (std::size_t b = 0; b < study_.tasks(); ++b) {
      const auto& sample = study_.sample(b, Split::test, trace_points(study_));
      all.push_back(study_.tangent(group, tau, sample.pixels).reshape({-1}));
    }
    return at::cat(all);
  }

  store::TensorFile compute(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const auto& training = training_.at(name);
    const bool joint = regime(name).joint, traced = !regime(name).start.empty();
    const auto began = std::chrono::steady_clock::now();
    const auto since = [&began] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    };

    Trainer trainer(study_, name, training, t, context.group);
    auto losses = study_.sums({training.steps}), penalties = losses.clone();
    std::vector<at::Tensor> trace;  // at step 0, each trace_every, and at the end
    std::int64_t step = 0;
    double seconds_before = 0;

    const auto state_path = context.scratch / "state.safetensors";
    if (std::filesystem::exists(state_path)) {
      const auto state = store::read_safetensors(state_path);
      trainer.load(state);
      losses.copy_(state.tensors.at("loss"));
      penalties.copy_(state.tensors.at("penalty"));
      if (traced) trace = state.tensors.at("trace").to(study_.device()).unbind(0);
      step = std::stoll(state.metadata.at("step"));
      seconds_before = std::stod(state.metadata.at("seconds"));
    }
    const auto keep_trace = [&] {
      const auto due =
          step / training.trace_every + 1 + (step == training.steps && step % training.trace_every);
      if (traced && static_cast<std::int64_t>(trace.size()) < due)
        trace.push_back(tangents(trainer.theta() - study_.theta0(), context.group));
    };
    keep_trace();
    const auto save = [&] {
      if (context.group.rank() != 0) return;
      store::TensorFile state;
      trainer.save(state);
      state.tensors["loss"] = losses;
      state.tensors["penalty"] = penalties;
      if (traced) state.tensors["trace"] = at::stack(trace);
      state.metadata["step"] = std::to_string(step);
      state.metadata["seconds"] = std::to_string(seconds_before + since());
      store::write_safetensors(state_path, state);
    };

    double saved = 0;
    LossWatch watch(study_.device(), step);
    const auto look = [&] { watch.look({losses, penalties}, step); };
    while (step < training.steps) {
      if (context.stop.requested(context.group)) {
        look();
        save();
        throw Interrupted((joint ? "finetune/" + name : key(name, t)) + ": stopped by " +
                          context.stop.reason());
      }
      if (training.checkpoint_seconds > 0 && since() - saved > training.checkpoint_seconds) {
        look();
        save();
        saved = since();
      }
      const auto value = trainer.step(step);
      losses[step] = value.loss;
      penalties[step] = value.penalty;
      ++step;
      keep_trace();
      if (!watch.due() && step < training.steps) continue;
      look();
      context.progress(static_cast<double>(step) / static_cast<double>(training.steps),
                       "loss " + std::to_string(value.loss.item<double>()).substr(0, 5));
    }
    if (context.group.rank() == 0) {
      models::write_checkpoint(joint ? study_.joint_folder(name) : study_.checkpoint_folder(name, t),
                               study_.encoder(), trainer.theta(), study_.fingerprint());
    }
    store::TensorFile result;
    result.tensors["loss"] = losses.to(at::kFloat);
    result.tensors["penalty"] = penalties.to(at::kFloat);
    if (traced) result.tensors["trace"] = at::stack(trace);
    result.tensors["seconds"] = at::full({}, seconds_before + since(), at::kDouble);
    result.metadata["fingerprint"] = models::fingerprint(trainer.theta());
    return result;
  }

  std::map<std::string, Training> training_;
};

}  // namespace

std::unique_ptr<Experiment> make_fine_tune(config::Config& config, const Study& study) {
  if (!config.has("finetune")) return nullptr;
  auto section = config.section("finetune");
  auto training = read_trainings(config);
  for (const auto& name : study.settings().regimes) {
    const auto tasks = static_cast<std::int64_t>(study.tasks());
    if (regime(name).joint && training.at(name).batch < tasks)
      section.refuse("batch",
                     name + " needs a sample of each of the " + std::to_string(tasks) + " tasks in it");
    if (regime(name).penalty != Penalty::none && study.tasks_and_control() < 2)
      section.refuse("regimes", name + " needs another task, or a control in data.control");
  }
  return std::make_unique<FineTune>(study, std::move(training));
}

}  // namespace taugrid::experiments
