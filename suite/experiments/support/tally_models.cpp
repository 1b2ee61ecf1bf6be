// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a Tally counts of edited models, task vectors and samples.
#include <ATen/ATen.h>

#include <algorithm>

#include "suite/experiments/support/tally.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::experiments {

using study::regime;

Tally& Tally::edited(const std::string& name, const std::vector<std::size_t>& tasks, std::size_t b,
                     Split split, std::int64_t n, std::int64_t models) {
  n = study_->tasks.sample_size(b, split, n);
  logits(b, n, models).sample(b, split, n);
  if (regime(name).linear)
    return reads(static_cast<double>(1 + static_cast<std::int64_t>(tasks.size())) *
                 features_bytes(*study_, b));
  const auto held = std::min(models, study_->edits.at_once());
  // A single task's vector is added once as it is: its own model.
  vectors(name, tasks).forward(b, n, models).statistics(name, tasks, models - (tasks.size() == 1 ? 1 : 0));
  return holds(static_cast<double>(held) * theta_bytes());
}

Tally& Tally::edited_sum(const std::string& name, std::size_t b, Split split, std::int64_t n,
                         std::int64_t models) {
  const auto all = study_->tasks.all();
  return visit(name, all).edited_along(name, all, b, split, n, models);
}

Tally& Tally::edited_along(const std::string& name, const std::vector<std::size_t>& tasks, std::size_t b,
                           Split split, std::int64_t n, std::int64_t models) {
  n = study_->tasks.sample_size(b, split, n);
  sample(b, split, n).logits(b, n, models).holds(2 * theta_bytes());
  if (regime(name).linear) return reads(features_bytes(*study_, b)).tangent(b, n);
  return forward(b, n, models).statistics(name, tasks, models);
}

Tally& Tally::statistics(const std::string& name, const std::vector<std::size_t>& tasks,
                         std::int64_t models) {
  const auto& edits = study_->edits;
  if (!edits.recomputes(name)) return *this;
  std::int64_t inputs = 0;
  for (const auto t : tasks) {
    const auto n = study_->tasks.sample_size(t, Split::train, edits.points_a_task(tasks.size()));
    sample(t, Split::train, n);
    inputs += n;
  }
  const auto& cost = study_->model.cost();
  return passes("statistics", inputs * ranks_, study_->settings.evaluation_batch, models, cost.forward(),
                cost.passing_by_batch(),
                [study = study_](const comm::Communicator&, std::int64_t n, std::int64_t) {
                  const auto batch = study->model.random_batch(n);
                  return schedule::Rehearsal{
                      [study, batch] { study->edits.statistics_of(study->model.theta0(), batch); },
                      static_cast<double>(n) * study->model.cost().forward()};
                });
}

Tally& Tally::vectors(const std::string& name, const std::vector<std::size_t>& tasks) {
  const bool all_kept =
      study_->settings.vector_regimes.size() * study_->tasks.size() <= study_->vectors.kept();
  for (const auto t : tasks) {
    if (!all_kept) load_.bytes_read += theta_bytes();
    load_.keeps["vector/" + study_->vectors.checkpoint_folder(name, t).string()] = theta_bytes();
  }
  return *this;
}

Tally& Tally::visit(const std::string& name, const std::vector<std::size_t>& tasks) {
  if (tasks.size() <= study_->vectors.kept()) return vectors(name, tasks);
  load_.bytes_read += static_cast<double>(static_cast<std::int64_t>(tasks.size())) * theta_bytes();
  return holds(4 * static_cast<double>(static_cast<std::int64_t>(tasks.size()) *
                                       study_->vectors.block_of(tasks.size(), 1)));
}

Tally& Tally::sample(std::size_t t, Split split, std::int64_t n, std::int64_t at_once) {
  const auto& settings = study_->settings;
  n = study_->tasks.sample_size(t, split, n);
  if (at_once == 0) at_once = settings.first_stage > 0 ? n : settings.evaluation_batch;
  if (study_->tasks.bytes(n) > study_->bound.samples) n = std::min(n, at_once);
  auto& bytes = load_.keeps["sample/" + study_->tasks.name(t) + "/" + study::split_name(split)];
  bytes = std::max(bytes, static_cast<double>(study_->tasks.bytes(n)));
  return *this;
}

double features_bytes(const Study& study, std::size_t b) {
  std::int64_t rows = 0;
  for (const auto split : {Split::test, Split::validation})
    rows += study.tasks.sample_size(b, split, study.points(b));
  return 4.0 * static_cast<double>(rows * study.tasks.readout(b).width(study.model.encoder()));
}

}  // namespace taugrid::experiments
