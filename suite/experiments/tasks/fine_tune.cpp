// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fine-tuning: one unit a regime and task, and one a joint regime. The model lies in
// RUN/checkpoints/REGIME/TASK (or REGIME/joint) once its unit is finished. A regime that goes on from
// another's task vectors also keeps its tangent features on the way, for its trace. With `keep`, models on
// the way lie in RUN/checkpoints/REGIME/TASK/stepN and epochN (of given regimes: early_similarity.cpp).
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/training/kept_models.hpp"
#include "suite/training/loop.hpp"
#include "suite/training/trained_model.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::experiments {
namespace {

std::vector<OutputGroup> fine_tune_outputs() {
  const Output loss = {"loss", "task step_R", "nat", "before each step, NaN behind a shorter training's end",
                       With{.element = Element::float32}},
               seconds = {"seconds", "task", "s", "what the training took"},
               crop = {"@random_crop", "", "",
                       "the least share of a picture's area that a random crop keeps; 1: none is cropped"};
  auto joint_loss = loss, joint_seconds = seconds;
  joint_loss.roles = "step_R";
  joint_seconds.roles = "";
  return {
      {"/training/R",
       "fine-tuning of each task by itself",
       {loss,
        {"penalty", "task step_R", "",
         "the regime's penalty before each step, as it is added to the loss: times @penalty_weight",
         With{.element = Element::float32, .when = "a regime with a penalty"}},
        seconds,
        {"@penalty_weight", "", "", "what the penalty is multiplied by",
         With{.when = "a regime with a penalty"}},
        {"@penalty_form", "", "", "what of τJp is penalised: its squared norm (squared) or its norm (norm)",
         With{.when = "a regime with a penalty"}},
        {"@penalty_others", "", "", "how the other tasks of a step are taken together: mean or sum",
         With{.when = "a regime with a penalty"}},
        crop},
       "[finetune]"},
      {"/training/R",
       "fine-tuning of one model on all tasks together, of a joint regime",
       {joint_loss, joint_seconds, crop},
       "[finetune]"},
      {"/variants/R",
       "what tells several fine-tunings of one task apart",
       {{"learning_rate", "task", "", "the largest of the schedule"},
        {"steps", "task", "", "how many", With{.element = Element::int64}},
        {"seed", "task", "", "that of the batches", With{.element = Element::int64}}},
       "[variants]",
       2}};
}

class FineTune final : public Experiment {
 public:
  FineTune(const Study& study, std::map<std::string, training::Training> training)
      : Experiment(study), training_(std::move(training)) {}

  bool runs_by_stages() const override { return true; }  // it has nothing to do there

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      if (!study_.settings.trains(name)) continue;
      for (std::size_t t = 0; t < study_.tasks.size(); ++t) {
        units.push_back(unit(
            key::fine_tune(name, study_.tasks.name(t)), tally(name, t), study_.vectors.start_needs(name, t),
            [this, name, t](schedule::UnitContext& context) { return compute(name, t, context); }));
        units.back().verify = [this, name, t](const auto& header) {
          const auto wrong =
              training::verify_checkpoint(study_.vectors.checkpoint_folder(name, t), header, "fingerprint");
          return wrong.empty() ? training::KeptModels(study_, name, t, how_of(name, t)).verify(header)
                               : wrong;
        };
      }
    }
    for (const auto& name : study_.settings.joint_regimes) {
      units.push_back(
          unit(key::joint(name), tally(name, 0), {},
               [this, name](schedule::UnitContext& context) { return compute(name, 0, context); }));
      units.back().verify = [this, name](const auto& header) {
        return training::verify_checkpoint(study_.vectors.joint_folder(name), header, "fingerprint");
      };
    }
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    for (const auto& name : study_.settings.vector_regimes) {
      if (!study_.settings.trains(name)) continue;
      groups.push_back({"/training/" + name,
                        {{"step_R", most_steps(name)}},
                        regime(name).penalty == study::Penalty::none ? Names{"penalty"} : Names{}});
      if (!study_.settings.variants.empty()) groups.push_back({"/variants/" + name});
    }
    for (const auto& name : study_.settings.joint_regimes)
      groups.push_back({"/training/" + name, {{"step_R", how_of(name, 0).steps}, {"task", 1}}, {"penalty"}});
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& name : study_.settings.vector_regimes) {
      if (!study_.settings.trains(name)) continue;
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t)
        boxes.push_back({key::fine_tune(name, study_.tasks.name(static_cast<std::size_t>(t))), {t}});
      const auto group = "/training/" + name;
      out.place(done, group + "/loss", boxes, "loss");
      if (regime(name).penalty != study::Penalty::none) {
        out.place(done, group + "/penalty", boxes, "penalty");
        out.attribute(group, "penalty_weight", training_.at(name).penalty_weight);
        out.attribute(group, "penalty_form", training::word(training_.at(name).penalty_form));
        out.attribute(group, "penalty_others", training::others(training_.at(name)));
      }
      out.attribute(group, "random_crop", training_.at(name).random_crop);
      out.place(done, group + "/seconds", boxes, "seconds");
      write_variants(out, name);
    }
    for (const auto& name : study_.settings.joint_regimes) {
      const auto file = done.folder.read_unit(done.world, key::joint(name));
      out.put("/training/" + name + "/loss", file.tensors.at("loss"));
      out.attribute("/training/" + name, "random_crop", training_.at(name).random_crop);
      out.put("/training/" + name + "/seconds", file.tensors.at("seconds"));
    }
  }

 private:
  training::Training how_of(const std::string& name, std::size_t t) const {
    return regime(name).joint ? training::of_joint(training_.at(name), study_)
                              : training::of_task(training_.at(name), study_, t);
  }

  std::int64_t most_steps(const std::string& name) const {
    std::int64_t most = 0;
    for (const auto t : study_.tasks.all()) most = std::max(most, how_of(name, t).steps);
    return most;
  }

  void write_variants(Results& out, const std::string& name) const {
    if (study_.settings.variants.empty()) return;
    std::vector<double> rates;
    std::vector<std::int64_t> steps, seeds;
    for (const auto t : study_.tasks.all()) {
      const auto how = how_of(name, t);
      rates.push_back(how.learning_rate);
      steps.push_back(how.steps);
      seeds.push_back(study_.settings.variants[t].seed);
    }
    const auto group = "/variants/" + name;
    out.put(group + "/learning_rate", at::tensor(rates, at::kDouble));
    out.put(group + "/steps", at::tensor(steps, at::kLong));
    out.put(group + "/seed", at::tensor(seeds, at::kLong));
  }

  Tally tally(const std::string& name, std::size_t t) const {
    const auto how = how_of(name, t);
    Tally tally(study_);
    tally.train(name, how, t, how.steps).checkpoint();
    if (!regime(name).joint)
      for (std::size_t i = 0; i < how.keep.size(); ++i) tally.checkpoint();
    tally.stores(2 * most_steps(name), sizeof(float));
    if (regime(name).start.empty()) return tally;
    const auto traced = how.traced_until(how.steps);
    tally.vectors(regime(name).start, {t});
    for (const auto b : study_.tasks.all()) {
      const auto n = study_.samples.size(b, Split::test, training::trace_points(study_));
      tally.sample(b, Split::test, n).tangent(b, n, traced);
      tally.stores(traced * n * study_.readouts.of(b).width(study_.model.encoder()), sizeof(float));
    }
    return tally;
  }

  std::int64_t traced_numbers() const {
    std::int64_t sum = 0;
    for (const auto b : study_.tasks.all())
      sum += study_.samples.size(b, Split::test, training::trace_points(study_)) *
             study_.readouts.of(b).width(study_.model.encoder());
    return sum;
  }

  /// J(x)τ on each task's test points, end to end: Σ n · width numbers.
  at::Tensor tangents(const std::string& name, const at::Tensor& tau, const comm::Communicator& group) const {
    std::vector<at::Tensor> all;
    for (const auto b : study_.tasks.all()) {
      const auto sample = study_.sample(name, b, Split::test, training::trace_points(study_));
      all.push_back(study_.evaluation.tangent(group, tau, b, sample.points).reshape({-1}));
    }
    return at::cat(all);
  }

  store::TensorFile compute(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const auto how = how_of(name, t);
    const bool joint = regime(name).joint, traced = !regime(name).start.empty();
    training::Trainer trainer(study_, name, how, t, context.group);
    auto losses = study_.sums({how.steps}), penalties = losses.clone();
    at::Tensor trace;  // a row for each of its points, once it is reached
    if (traced) trace = at::zeros({how.traced_until(how.steps), traced_numbers()}, trainer.theta().options());
    const auto keep_trace = [&](std::int64_t done) {
      const bool due = done % how.trace_every == 0 || done == how.steps;
      if (traced && due)
        trace[how.traced_until(done) - 1].copy_(
            tangents(name, trainer.theta() - study_.model.theta0(), context.group));
    };

    training::Steps steps;
    steps.what = joint ? key::joint(name) : key::fine_tune(name, study_.tasks.name(t));
    steps.steps = how.steps;
    steps.checkpoint_seconds = how.checkpoint_seconds;
    steps.device = study_.device;
    steps.losses = {losses, penalties};
    steps.step = [&](std::int64_t number) {
      const auto value = trainer.step(number);
      losses[number] = value.loss;
      penalties[number] = value.penalty;
      return value.loss;
    };
    steps.state = [&] {
      store::TensorFile state;
      trainer.save(state);
      state.tensors["loss"] = losses;
      state.tensors["penalty"] = penalties;
      if (traced) state.tensors["trace"] = trace;
      return state;
    };
    const training::KeptModels kept(study_, name, t, how);
    steps.after = [&](std::int64_t done) {
      keep_trace(done);
      if (!joint && context.group.rank() == 0) kept.write(done, trainer.state());
    };
    const double seconds = training::run(steps, context);

    if (context.group.rank() == 0) {
      if (trainer.factors() && !study_.settings.random_init)  // a θ0 that PEFT can load
        trainer.factors()->write_adapter(study_.vectors.checkpoint_folder(name, t) / "adapter",
                                         study_.settings.model.string());
      models::write_checkpoint(
          joint ? study_.vectors.joint_folder(name) : study_.vectors.checkpoint_folder(name, t),
          study_.model.encoder(), trainer.state(), study_.model.fingerprint());
    }
    store::TensorFile result;
    const auto longest = joint ? how.steps : most_steps(name);
    for (const auto& [what, values] : {std::pair{"loss", losses}, std::pair{"penalty", penalties}}) {
      auto padded = at::full({longest}, std::nan(""), values.options().dtype(at::kFloat));
      padded.narrow(0, 0, how.steps).copy_(values);
      result.tensors[what] = padded;
    }
    if (traced) result.tensors["trace"] = trace;
    result.tensors["seconds"] = at::full({}, seconds, at::kDouble);
    result.metadata["fingerprint"] = models::fingerprint(trainer.state());
    if (joint || context.group.rank() != 0) return result;
    result.metadata.merge(kept.fingerprints());
    return result;
  }

  std::map<std::string, training::Training> training_;
};

/// A penalty on the partner alone needs one partner a task. Throws InputError.
void require_partners(config::Section& section, const std::string& name, const Study& study) {
  for (const auto t : study.tasks.all()) {
    const auto count = training::partners(study, t).size();
    if (count == 1) continue;
    section.refuse("penalty_tasks",
                   fmt::format("is \"partner\" for {}, but {} is in {} of the measured pairs; expected "
                               "each task in one: list such in data.pairs",
                               name, study.tasks.name(t), count));
  }
}

/// Where steps are a variant's own, or epochs of each task's points, each task has those of warm-up. Throws
/// InputError.
void require_warm_up(config::Section& section, const std::string& name, const training::Training& how,
                     const Study& study) {
  if (how.epochs > 0 && !regime(name).start.empty())
    section.refuse("epochs", name + " needs as many steps for each task; set steps");
  const auto refuse = [&](std::int64_t steps, const std::string& of) {
    section.refuse("warmup_steps",
                   fmt::format("is {} for {}; expected at most the {} {}", how.warmup, name, steps, of));
  };
  const auto every = study.tasks.all();
  if (regime(name).joint) {
    const bool known =
        std::none_of(every.begin(), every.end(), [&](auto t) { return study.tasks.is_stand_in(t); });
    if (const auto steps = training::of_joint(how, study).steps; known && steps < how.warmup)
      refuse(steps, fmt::format("steps that epochs = {} are of all tasks", how.epochs));
    return;
  }
  for (const auto t : every) {
    const auto steps = training::of_task(how, study, t).steps;
    if (study.tasks.is_stand_in(t) || steps >= how.warmup) continue;
    refuse(steps, how.epochs > 0
                      ? fmt::format("steps that epochs = {} are of {}", how.epochs, study.tasks.name(t))
                      : "of variants.steps");
  }
}

/// Models are kept before the training ends. Throws InputError.
void require_marks(config::Section& section, const std::string& name, const training::Training& how,
                   const Study& study) {
  for (const auto& mark : how.keep) {
    for (const auto t : study.tasks.all()) {
      const auto updates = training::updates_at(study, how, mark, t);
      if (updates <= training::of_task(how, study, t).steps) continue;
      section.refuse(mark.epochs ? "keep_epochs" : "keep",
                     fmt::format("has {}, of {} on {} after {} steps; expected at most steps, {}", mark.count,
                                 name, study.tasks.name(t), updates, training::of_task(how, study, t).steps));
    }
  }
}

std::unique_ptr<Experiment> make_fine_tune(config::Config& config, const Study& study) {
  auto section = study::finetune_section(config);
  if (!section) return nullptr;
  auto training = training::read_trainings(config);
  for (const auto& [name, how] : training) {
    if (how.random_crop < 1 && study.model.encoder().takes().text())
      section->refuse("random_crop", "crops pictures, and the model " + study.settings.model.string() +
                                         " takes text; leave it away");
  }
  for (const auto& name : study.settings.regimes) {
    const auto tasks = static_cast<std::int64_t>(study.tasks.size());
    if (regime(name).joint && training.at(name).batch < tasks)
      section->refuse("batch",
                      name + " needs a sample of each of the " + std::to_string(tasks) + " tasks in it");
    if (regime(name).source.empty() && study.settings.trains(name))
      require_warm_up(*section, name, training.at(name), study);
    if (regime(name).source.empty() && !regime(name).joint)
      require_marks(*section, name, training.at(name), study);
    if (regime(name).penalty == study::Penalty::none || !study.settings.trains(name)) continue;
    if (study.tasks.with_control() < 2)
      section->refuse("regimes", name + " needs another task, or a control in data.control");
    if (training.at(name).penalty_partner) require_partners(*section, name, study);
  }
  return std::make_unique<FineTune>(study, std::move(training));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(fine_tune, 20, make_fine_tune, fine_tune_outputs)
