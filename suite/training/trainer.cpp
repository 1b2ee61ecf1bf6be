// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/training/trainer.hpp"

#include <ATen/ATen.h>

#include <utility>

#include "suite/data/crop.hpp"

namespace taugrid::training {

using study::Penalty;
using study::Study;

namespace {

/// Where training begins: at θ0, or at another regime's model of the task.
models::State beginning(const Study& study, const study::Regime& regime, std::size_t t) {
  return study.edits.state(regime.start.empty() ? study::Edit::start()
                                                : study::Edit::fine_tuned(regime.start, t));
}

}  // namespace

Trainer::Trainer(const Study& study, const std::string& name, const Training& training, std::size_t t,
                 const comm::Communicator& group, const std::optional<models::State>& begin,
                 const std::vector<std::size_t>& of)
    : study_(study),
      regime_(study::regime(name)),
      training_(training),
      group_(group),
      update_(
          study, regime_, training, begin ? *begin : beginning(study, regime_, t), group,
          regime_.low_rank ? study::seed_for(study.settings.seed, "factors/" + study.tasks.drawn_by(t)) : 0),
      from_(study.first_changed_stage(name)) {
  if (regime_.joint) {
    // A batch holds as many samples of each task as of any other.
    const auto tasks = of.empty() ? study.tasks.all() : of;
    const auto each = training.batch / static_cast<std::int64_t>(tasks.size());
    for (const auto u : tasks) fitted_.push_back({u, study.samples.batches(u, each)});
    return;
  }
  fitted_.push_back({t, study.samples.batches(t, training.batch)});
  for (const auto u : penalised_tasks(study, regime_, training, t))
    others_.push_back(
        {u, study.samples.batches(u, training.penalty_batch, "penalty/" + study.tasks.name(t) + "/")});
}

Term Trainer::term(Source& source, std::int64_t turn, bool penalty) const {
  const auto task = source.task;
  const auto rows = source.batches.rows(turn);
  const auto n = rows.size(0);
  const auto share = group_.share_of(n);
  const auto mine = rows.narrow(0, share.begin, share.count);
  const auto batch = [&] {
    if (training_.random_crop == 1) return study_.samples.batch(task, study::Split::train, mine, from_);
    // Boxes of the whole batch, whoever takes which part of it, and of this step alone.
    const auto& pictures = study_.tasks.data(task).train.inputs;
    const auto boxes =
        data::random_boxes(n, pictures.size(1), pictures.size(2), training_.random_crop,
                           study::seed_for(source.batches.seed(), "crops" + std::to_string(turn)));
    return study_.samples.cropped_batch(task, study::Split::train, mine,
                                        boxes.narrow(0, share.begin, share.count), from_);
  };
  const auto& readout = study_.readouts.of(task);
  if (penalty) return {batch(), {}, &readout, 1 / static_cast<double>(n)};
  // The numbers are of the whole batch, whoever takes which part of it.
  const auto items = readout.loss_items(study_.tasks.data(task).train.labels.index_select(0, rows));
  return {batch(), study_.samples.labels(task, study::Split::train, mine), &readout, 1 / items};
}

std::vector<Term> Trainer::terms(std::int64_t step) {
  std::vector<Term> all;
  for (auto& source : fitted_) {
    all.push_back(term(source, step, false));
    all.back().weight /= static_cast<double>(fitted_.size());
  }
  if (others_.empty()) return all;
  const bool strict = regime_.penalty == Penalty::strict;
  const auto at_once = strict && training_.penalty_mean ? static_cast<double>(others_.size()) : 1.0;
  const auto penalise = [&](Source& source, std::int64_t turn) {
    all.push_back(term(source, turn, true));
    all.back().weight *= training_.penalty_weight / at_once;
    all.back().form = training_.penalty_form;
  };
  if (strict) {
    for (auto& source : others_) penalise(source, step);
  } else {
    const auto count = static_cast<std::int64_t>(others_.size());
    penalise(others_[static_cast<std::size_t>(step % count)], step / count);
  }
  return all;
}

std::vector<Term> Trainer::take(std::int64_t step) {
  auto coming = std::exchange(coming_, std::nullopt);
  if (!coming || coming->step != step) return terms(step);
  coming->work.wait();
  for (auto& term : coming->terms) {
    comm::use_on_current_stream(term.batch.held());
    for (const auto* given : term.batch.further())
      if (given->defined()) comm::use_on_current_stream(*given);
    if (!term.penalty()) comm::use_on_current_stream(term.labels);
  }
  return std::move(coming->terms);
}

void Trainer::prepare(std::int64_t step) {
  if (study_.device.is_cpu() || step >= training_.steps) return;
  Coming next{step, {}, {}};
  next.work = comm::beside(study_.device, [&] { next.terms = terms(step); });
  coming_ = std::move(next);
}

LossValue Trainer::step(std::int64_t number) {
  update_.begin_step();
  const auto batch = take(number);
  prepare(number + 1);
  update_.note("batch");
  return update_(batch, training_.rate(number));
}

}  // namespace taugrid::training
