// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How regimes are trained: the numbers of [finetune].
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/study/regime.hpp"
#include "suite/study/study.hpp"

namespace taugrid::training {

/// A point of a training at which its model is kept: after so many updates, or epochs.
struct Mark {
  bool epochs = false;
  std::int64_t count = 0;
  /// "step2", "epoch1": the name of its folder.
  std::string name() const { return (epochs ? "epoch" : "step") + std::to_string(count); }
  /// The updates that are done there, of a task with so many training points.
  std::int64_t updates(std::int64_t points, std::int64_t batch) const {
    return epochs ? (count * points + batch - 1) / batch : count;
  }
};

/// How the learning rate goes on behind warm-up: along half a cosine or a line to 0, or it stays.
enum class Schedule { cosine, linear, constant };

struct Training {
  std::int64_t steps = 0, batch = 0, warmup = 0;
  double learning_rate = 0, weight_decay = 0, clip = 0, checkpoint_seconds = 0;
  double penalty_weight = 0;       ///< λ of the τJp penalty (paper 3: 0.1)
  std::int64_t penalty_batch = 0;  ///< inputs of each other task
  study::PenaltyForm penalty_form = study::PenaltyForm::squared;
  /// Whether several tasks' penalties of one step are averaged, as the authors' code does, or summed (eq.
  /// 10).
  bool penalty_mean = false;
  bool penalty_partner = false;   ///< on the task's partner alone (paper 3, figure 3)
  double random_crop = 1;         ///< the least share of a picture's area that its crop keeps; 1: no crops
  std::int64_t trace_every = 10;  ///< steps between the points of a continuation's trace
  std::vector<Mark> keep = {};    ///< models on the way that are kept, ascending; steps first
  bool sgd = false;               ///< gradient descent without momentum, in place of AdamW
  Schedule schedule = Schedule::cosine;
  std::int64_t epochs = 0;  ///< of each task's own training points, in place of `steps`; 0: `steps`

  /// The learning rate of a step.
  double rate(std::int64_t step) const;

  /// Points of the trace: at step 0, each trace_every, and at the end.
  std::int64_t traced_until(std::int64_t step) const {
    return step / trace_every + 1 + (step == steps && step % trace_every > 0);
  }
};

/// The words of schedule, penalty_form and penalty_others.
const char* word(Schedule schedule);
const char* word(study::PenaltyForm form);
const char* others(const Training& training);

/// [finetune], with single values overridden by [finetune.REGIME], of every regime. Throws InputError.
std::map<std::string, Training> read_trainings(config::Config& config);

/// How task t is trained: it may be one of several fine-tunings of one task, and `epochs` are of its points.
Training of_task(Training training, const study::Study& study, std::size_t t);

/// How one model of all tasks is trained: where there are `epochs`, for the sum of the tasks' steps.
Training of_joint(Training training, const study::Study& study);

/// The key warmup_steps of a section that trains for so many steps. Throws InputError where it is more.
std::int64_t warmup_steps(config::Section& section, std::int64_t fallback, std::int64_t steps);

/// The updates that are done at a mark of task t. They may be more than the training has.
std::int64_t updates_at(const study::Study& study, const Training& training, const Mark& mark, std::size_t t);

/// Test points a task that a continuation's trace is measured on: it holds all tasks' features at each of its
/// steps.
std::int64_t trace_points(const study::Study& study);

/// The tasks that make a measured pair with task t.
std::vector<std::size_t> partners(const study::Study& study, std::size_t t);

/// Tasks whose inputs the τJp penalty of task t is taken on.
std::vector<std::size_t> penalised_tasks(const study::Study& study, const study::Regime& regime,
                                         const Training& training, std::size_t t);

/// Numbers of one sum over ranks beside the backward pass, at least, of a gradient of so many: large enough for the
/// network, small enough to begin early.
std::int64_t stretch_of_sums(std::int64_t gradient);

/// Inputs of one training step of task t, those of its penalty among them.
std::int64_t step_inputs(const study::Study& study, const std::string& regime, const Training& training,
                         std::size_t t);

/// Additions and multiplications of one training step of task t.
double step_flops(const study::Study& study, const std::string& regime, const Training& training,
                  std::size_t t);

}  // namespace taugrid::training
