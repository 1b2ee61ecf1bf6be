// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/tasks.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <numeric>

#include "suite/study/task_fit.hpp"

namespace taugrid::study {
namespace {

/// A line that says what a task holds.
std::string described(const data::Task& task) {
  const auto answers =
      task.head.kind == data::Head::Kind::text      ? fmt::format("answered by texts ({})", task.head.metric)
      : task.head.kind == data::Head::Kind::choices ? fmt::format("up to {} choices a row", task.classes())
                                                    : fmt::format("{} classes", task.classes());
  return fmt::format("found: {}, {} + {} + {} {}", answers, task.train.labels.size(0),
                     task.validation.labels.size(0), task.test.labels.size(0),
                     task.modality == "text" ? "texts" : "images");
}

/// Stands in for a task whose file is missing or wrong, of which work is counted.
data::Task stand_in(const Model& model) {
  data::Task task;
  task.class_names.resize(10);
  task.head.weight = at::zeros({10, model.encoder().width()});
  if (model.decoded() > 0) {
    task.head.kind = data::Head::Kind::sequences;
    task.head.tokens = at::arange(10, at::kLong).unsqueeze(1);
    task.head.lengths = at::ones({10}, at::kLong);
  }
  for (auto* split : {&task.train, &task.validation, &task.test})
    split->labels = at::zeros({1}, at::kLong).expand({1000000});
  return task;
}

/// Whether a stand-in can be read by the task's head, which was made for another model.
bool reads(const models::Encoder& encoder, const data::Task& task) {
  if (has_answers(task)) return false;
  if (task.head.kind == data::Head::Kind::words) return encoder.vocabulary_block() >= 0;
  return task.head.weight.size(1) == encoder.width();
}

}  // namespace

Tasks::Tasks(const Settings& settings, const Model& model, InputFiles& files)
    : model_(model), folder_(settings.data), has_control_(!settings.control.empty()), pairs_(settings.pairs) {
  for (std::size_t t = 0; t < settings.tasks.size(); ++t) add(t, settings, files);
  if (!has_control_) return;
  names_.push_back(settings.control);
  sources_.push_back({settings.control, settings.control, settings.tasks.size()});
  read(settings.control, settings, files);
}

void Tasks::add(std::size_t t, const Settings& settings, InputFiles& files) {
  const auto& data = settings.data_of(t);
  const auto seed = settings.variants.empty() ? 0 : settings.variants[t].seed;
  std::size_t first = 0;
  while (first < t && sources_[first].data != data) ++first;
  names_.push_back(settings.tasks[t]);
  sources_.push_back({data, seed == 0 ? data : data + "/" + std::to_string(seed), first});
  if (first == t) {
    read(data, settings, files);
  } else {
    tasks_.push_back(tasks_[first]);
  }
}

void Tasks::read(const std::string& name, const Settings& settings, InputFiles& files) {
  const auto path = folder_ / (name + ".h5");
  const auto& encoder = model_.encoder();
  data::Task task;
  const bool there = files.read(name, path, [&] {
    task = data::read_task(path);
    if (!model_.is_stand_in()) require_fit(task, encoder, settings, path.string());
    return described(task);
  });
  if (!there) task = stand_in(model_);
  if (there && model_.is_stand_in() && !reads(encoder, task)) {
    const auto classes = std::max<std::int64_t>(1, task.classes());
    task.head = {};
    task.head.weight = at::zeros({classes, encoder.width()});
  }
  tasks_.push_back(std::make_shared<const data::Task>(std::move(task)));
}

std::vector<std::size_t> Tasks::all() const {
  std::vector<std::size_t> all(size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::size_t> Tasks::pairs_of(std::size_t t) const {
  std::vector<std::size_t> pairs;
  for (std::size_t p = 0; p < pairs_.size(); ++p)
    if (pairs_[p].first == t || pairs_[p].second == t) pairs.push_back(p);
  return pairs;
}

}  // namespace taugrid::study
