// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/training.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "suite/error.hpp"
#include "suite/training/adamw.hpp"
#include "suite/training/loss.hpp"

namespace taugrid::training {

using study::Penalty;
using study::PenaltyForm;
using study::Regime;
using study::Study;

const char* word(Schedule schedule) {
  return schedule == Schedule::cosine ? "cosine" : schedule == Schedule::linear ? "linear" : "constant";
}

const char* word(PenaltyForm form) { return form == PenaltyForm::norm ? "norm" : "squared"; }

const char* others(const Training& training) { return training.penalty_mean ? "mean" : "sum"; }

namespace {

/// Ascending whole numbers above 0.
void read_marks(config::Section& section, const std::string& key, const config::Meaning& meaning, bool epochs,
                const std::vector<Mark>& fallback, std::vector<Mark>& marks) {
  std::vector<double> usual;
  for (const auto& mark : fallback)
    if (mark.epochs == epochs) usual.push_back(static_cast<double>(mark.count));
  std::int64_t before = 0;
  for (const auto given : section.reals(key, meaning, usual, {1, 1e9})) {
    const auto count = static_cast<std::int64_t>(given);
    if (static_cast<double>(count) != given || count <= before)
      section.refuse(key, "expected whole numbers that ascend");
    marks.push_back({epochs, before = count});
  }
}

/// `d`: what is in force where the section sets nothing.
Training read(config::Section section, const Training& d) {
  Training t{};
  t.sgd =
      section.word("optimiser",
                   "AdamW, or gradient descent without momentum, as some papers train networks from scratch",
                   d.sgd ? "sgd" : "adamw", {"adamw", "sgd"}) == "sgd";
  const auto schedule = section.word(
      "schedule",
      "How the learning rate goes on behind warm-up: by a cosine to 0, by a straight line to 0, or it stays",
      word(d.schedule), {"cosine", "linear", "constant"});
  for (const auto each : {Schedule::cosine, Schedule::linear, Schedule::constant})
    if (schedule == word(each)) t.schedule = each;
  t.steps = section.integer("steps", "Steps of training for each model", d.steps, {1, 1e7});
  t.epochs = section.integer("epochs",
                             "In place of steps: as many as see each of the task's training points so often; "
                             "joint training takes the sum of the tasks' steps. 0: steps",
                             d.epochs, {0, 1e6});
  t.batch = section.integer("batch", "Training points a step; joint training draws equally many of each task",
                            d.batch, {1, 1e6});
  t.warmup = t.epochs == 0 ? warmup_steps(section, d.warmup, t.steps)
                           : warmup_steps(section, d.warmup, std::numeric_limits<std::int64_t>::max());
  t.learning_rate =
      section.real("learning_rate", "The highest rate, reached after warm-up", d.learning_rate, {0, 1e3});
  t.weight_decay = section.real("weight_decay", "Decay of weights, decoupled from AdamW's moments",
                                d.weight_decay, {0, 1e3});
  t.clip =
      section.real("clip_norm", "A gradient that is longer is shortened to this norm", d.clip, {1e-12, 1e12});
  t.checkpoint_seconds = section.real("checkpoint_seconds",
                                      "Seconds between savings of a training under way, so that a killed one "
                                      "goes on; 0: only where it is told to stop",
                                      d.checkpoint_seconds, {0, 1e9});
  t.penalty_weight = section.real("penalty_weight", "λ, the weight of the τJp penalty of the tau_jp regimes",
                                  d.penalty_weight, {0, 1e9});
  t.penalty_form = section.word("penalty_form",
                                "The τJp penalty is the mean over points of ‖J(x)(θ − θ0)‖², as the paper's "
                                "equation 10, or of the norm itself, as its authors' code",
                                word(d.penalty_form), {"squared", "norm"}) == "norm"
                       ? PenaltyForm::norm
                       : PenaltyForm::squared;
  t.penalty_mean = section.word("penalty_others",
                                "Penalties of several other tasks in one step are added up, as the paper's "
                                "equation 10, or their mean is taken, as its authors' code",
                                others(d), {"sum", "mean"}) == "mean";
  t.penalty_partner =
      section.word(
          "penalty_tasks",
          "Whose inputs the τJp penalty of a task is taken on: those that its regime names, or of these its "
          "partner alone, where each task is in one of data.pairs, as the paper's figure 3",
          d.penalty_partner ? "partner" : "regime", {"regime", "partner"}) == "partner";
  t.penalty_batch =
      section.integer("penalty_batch", "Points of each other task that a step's penalty is taken over",
                      d.penalty_batch, {1, 1e6});
  t.random_crop =
      section.real("random_crop",
                   "The least share of its area that a random crop keeps of a training picture, resized "
                   "to the whole: 0.9 in the papers' code, anew each step; 1: no crops",
                   d.random_crop, {0.01, 1});
  t.trace_every = section.integer("trace_every", "Steps between two points of tau_jp_continue's curve",
                                  d.trace_every, {1, 1e9});
  read_marks(
      section, "keep",
      {"Models on the way that are kept beside the last, as REGIME/TASK/stepN of the checkpoints, and whose "
       "vectors' similarity is measured: after so many steps. A given regime is trained again so far, below "
       "checkpoints/kept, and must have the losses of the run that gives it",
       {.values = "a list of ascending integers from 1 to steps"}},
      false, d.keep, t.keep);
  read_marks(section, "keep_epochs",
             {"The same after so many epochs, as REGIME/TASK/epochN: steps that see each training point once",
              {.values = "a list of ascending integers from 1"}},
             true, d.keep, t.keep);
  return t;
}

}  // namespace

double Training::rate(std::int64_t step) const {
  switch (schedule) {
    case Schedule::constant:
      return learning_rate * constant_schedule(step, warmup);
    case Schedule::linear:
      return learning_rate * linear_schedule(step, warmup, steps);
    case Schedule::cosine:
      break;
  }
  return learning_rate * cosine_schedule(step, warmup, steps);
}

std::int64_t warmup_steps(config::Section& section, std::int64_t fallback, std::int64_t steps) {
  const auto warmup = section.integer(
      "warmup_steps",
      {"Steps over which the learning rate rises from 0", {.values = "an integer from 0 to steps"}}, fallback,
      {0, 1e9});
  if (warmup > steps)
    section.refuse("warmup_steps", "is " + std::to_string(warmup) +
                                       (section.has("warmup_steps") ? "" : ", where it is not set") +
                                       "; expected at most steps, " + std::to_string(steps));
  return warmup;
}

std::map<std::string, Training> read_trainings(config::Config& config) {
  // The papers' values: 2,000 steps of 128, 200 of warm-up (paper 1, appendix A); λ and 16 inputs of each
  // other task (paper 3, section 5.2 and its code).
  auto section = study::finetune_section(config);
  if (!section) throw InputError("there is no section [finetune]; add one, with the regimes to train");
  const auto common = read(*section, {2000, 128, 200, 1e-5, 0.1, 1.0, 60, 0.1, 16});
  std::map<std::string, Training> all;
  for (const auto& name : study::regime_names()) all.emplace(name, common);
  // One of a regime not chosen is checked all the same.
  const auto parts = section->parts(study::regime_names(), "REGIME",
                                    "What is other for one regime, such as [finetune.linear]");
  for (const auto& [name, part] : parts) all.insert_or_assign(name, read(part, common));
  return all;
}

std::int64_t updates_at(const Study& study, const Training& training, const Mark& mark, std::size_t t) {
  const auto updates = mark.updates(study.tasks.data(t).train.labels.size(0), training.batch);
  // How long an epoch is says the file alone.
  return study.tasks.is_stand_in(t) ? std::min(updates, of_task(training, study, t).steps) : updates;
}

Training of_task(Training training, const Study& study, std::size_t t) {
  if (training.epochs > 0) {
    const auto points = study.tasks.data(t).train.labels.size(0);
    training.steps = Mark{true, training.epochs}.updates(points, training.batch);
  }
  if (study.settings.variants.empty()) return training;
  const auto& variant = study.settings.variants.at(t);
  training.learning_rate = variant.learning_rate.value_or(training.learning_rate);
  training.steps = variant.steps.value_or(training.steps);
  return training;
}

Training of_joint(Training training, const Study& study) {
  if (training.epochs == 0) return training;
  std::int64_t sum = 0;
  for (const auto t : study.tasks.all()) sum += of_task(training, study, t).steps;
  training.steps = sum;
  return training;
}

std::int64_t trace_points(const Study& study) {
  return std::min<std::int64_t>(study.settings.evaluation_points, 256);
}

std::vector<std::size_t> partners(const Study& study, std::size_t t) {
  std::vector<std::size_t> all;
  for (const auto& [i, j] : study.tasks.pairs()) {
    if (i == t || j == t) all.push_back(i == t ? j : i);
  }
  return all;
}

std::vector<std::size_t> penalised_tasks(const Study& study, const Regime& regime, const Training& training,
                                         std::size_t t) {
  std::vector<std::size_t> all;
  if (regime.penalty == Penalty::none) return all;
  const auto among = partners(study, t);
  const auto end = regime.penalty == Penalty::earlier ? t : study.tasks.with_control();
  for (std::size_t u = 0; u < end; ++u) {
    const bool wanted = !training.penalty_partner || std::find(among.begin(), among.end(), u) != among.end();
    if (u != t && wanted) all.push_back(u);
  }
  return all;
}

std::int64_t stretch_of_sums(std::int64_t gradient) {
  constexpr std::int64_t smallest = std::int64_t{1} << 16, largest = std::int64_t{1} << 23;
  return std::clamp(gradient / 8, smallest, largest);
}

std::int64_t step_inputs(const Study& study, const std::string& name, const Training& training,
                         std::size_t t) {
  const auto& r = study::regime(name);
  if (r.joint) {  // as many of each task
    const auto tasks = static_cast<std::int64_t>(study.tasks.size());
    return training.batch / tasks * tasks;
  }
  const auto others = static_cast<std::int64_t>(penalised_tasks(study, r, training, t).size());
  return training.batch + training.penalty_batch * (r.penalty == Penalty::strict ? others : others > 0);
}

double step_flops(const Study& study, const std::string& name, const Training& training, std::size_t t) {
  return static_cast<double>(step_inputs(study, name, training, t)) *
         step_flops_an_input(study::regime(name), study.trained_blocks(name), study.model.cost());
}

}  // namespace taugrid::training
