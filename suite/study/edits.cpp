// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/edits.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/weights/weights.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/input_file.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::study {

std::int64_t Edits::at_once() const {
  constexpr std::int64_t numbers = std::int64_t{1} << 28;  // of models held at once: 1 GiB
  return std::max<std::int64_t>(1, numbers / model_.layout().size());
}

bool Edits::recomputes(const std::string& name) const {
  return model_.encoder().mixes_in_training() && settings_.buffers == "recompute" && !regime(name).linear;
}

std::int64_t Edits::points_a_task(std::size_t tasks) const {
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, tasks));
  return (settings_.buffers_points + count - 1) / count;
}

std::vector<at::Tensor> Edits::statistics_of(const at::Tensor& theta, const models::Batch& batch) const {
  const at::NoGradGuard no_grad;
  autodiff::BatchStatistics statistics;
  model_.encoder().encode(model_.layout().views(theta),
                          models::Given{batch, model_.start_buffers(), &statistics});
  return statistics.moments;
}

at::Tensor Edits::recomputed(const at::Tensor& theta, const std::vector<std::size_t>& tasks) const {
  std::vector<Sample> samples;
  std::int64_t all = 0;
  for (const auto t : tasks) {
    samples.push_back(samples_.of(t, Split::train, points_a_task(tasks.size()), model_.first_stage()));
    all += samples.back().labels.size(0);
  }
  const auto batches = (all + settings_.evaluation_batch - 1) / settings_.evaluation_batch;
  auto sum = model_.start().buffers.clone();
  auto views = model_.encoder().buffers().views(sum);
  for (std::int64_t k = 0; k < batches; ++k) {
    std::vector<models::Batch> parts;
    for (const auto& sample : samples) {
      const auto n = sample.labels.size(0), begin = k * n / batches, end = (k + 1) * n / batches;
      if (end > begin) parts.push_back(sample.points.part(begin, end - begin).to(at::kFloat));
    }
    const auto statistics = statistics_of(theta, models::joined(parts));
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      auto& view =
          views[views.size() - statistics.size() + i];  // frozen stages, which are the first, have none
      if (k == 0) view.zero_();
      view.add_(statistics[i].to(at::kFloat), 1 / static_cast<double>(batches));
    }
  }
  return sum;
}

at::Tensor Edits::averaged(const std::string& regime, const std::vector<std::size_t>& tasks,
                           const at::Tensor& alpha) const {
  auto sum = model_.start().buffers.clone();
  for (std::size_t i = 0; i < tasks.size(); ++i)
    sum.add_(vectors_.buffers(regime, tasks[i]), alpha[static_cast<std::int64_t>(i)].item<double>());
  // Means and variances take turns; beyond the fine-tuned models a sum of variances may be less than none.
  auto views = model_.encoder().buffers().views(sum);
  for (std::size_t i = 1; i < views.size(); i += 2) views[i].clamp_min_(0);
  return sum;
}

at::Tensor Edits::buffers(const Edit& edit, const at::Tensor& alpha, const at::Tensor& theta) const {
  const auto& start = model_.start().buffers;
  if (!start.defined()) return start;
  std::vector<std::size_t> edited;
  std::string key;
  double last = 0;
  for (std::size_t i = 0; i < edit.tasks.size(); ++i) {
    const auto coefficient = alpha[static_cast<std::int64_t>(i)].item<double>();
    if (coefficient == 0) continue;
    edited.push_back(edit.tasks[i]);
    key += fmt::format("{} {:a} ", edit.tasks[i], last = coefficient);
  }
  if (edited.empty()) return start;
  const bool merged = edit.kind == Edit::Kind::direction;  // its coefficients do not say what θ is
  if (edited.size() == 1 && last == 1 && !merged)
    return start + vectors_.buffers(edit.regime, edited.front());
  if (settings_.buffers == "average") return averaged(edit.regime, edit.tasks, alpha);
  if (!recomputes(edit.regime)) return start;
  if (merged) return recomputed(theta, edited);
  constexpr std::size_t most = 1024;
  if (recomputed_.size() >= most) recomputed_.clear();
  const auto* kind = edit.kind == Edit::Kind::terms ? "terms " : "sum ";  // which round otherwise
  auto& buffers = recomputed_[kind + edit.regime + " " + key];
  if (!buffers.defined()) buffers = recomputed(theta, edited);
  return buffers;
}

void Edits::each_of_terms(const Edit& edit,
                          const std::function<void(std::int64_t, const models::State&)>& see) const {
  const auto rows = edit.models();
  std::vector<at::Tensor> vectors;
  for (const auto t : edit.tasks) vectors.push_back(vectors_.vector(edit.regime, t));
  const auto step = std::clamp<std::int64_t>(at_once(), 1, std::max<std::int64_t>(rows, 1));
  auto models = at::empty({step, model_.layout().size()}, model_.theta0().options());
  for (std::int64_t k = 0; k < rows; k += step) {
    const auto m = std::min(step, rows - k);
    auto some = models.narrow(0, 0, m);
    weights::combine(model_.theta0(), vectors, edit.alpha.narrow(0, k, m), some);
    for (std::int64_t i = 0; i < m; ++i) see(k + i, {some[i], buffers(edit, edit.alpha[k + i], some[i])});
  }
}

void Edits::each(const Edit& edit, const std::function<void(std::int64_t, const models::State&)>& see) const {
  if (edit.kind == Edit::Kind::terms) return each_of_terms(edit, see);
  if (edit.kind == Edit::Kind::start) return see(0, model_.start());
  if (edit.kind == Edit::Kind::joint) {
    const auto folder = vectors_.joint_folder(edit.regime);
    for (const auto* part : {"config.json", "model.safetensors"}) store::wait_for(folder / part);
    return see(0, models::read_checkpoint(folder).state.to(model_.device()));
  }
  const bool is_sum = edit.kind == Edit::Kind::sum;
  const auto direction = is_sum ? vectors_.sum(edit.regime, edit.tasks) : edit.direction;
  const auto count = static_cast<std::int64_t>(edit.tasks.size());
  for (std::int64_t k = 0; k < edit.models(); ++k) {
    const auto alpha = edit.alpha[k].item<double>();
    const auto of_each = at::full({count}, is_sum ? alpha : alpha / static_cast<double>(count), at::kDouble);
    const auto theta = at::add(model_.theta0(), direction, alpha);
    see(k, {theta, buffers(edit, of_each, theta)});
  }
}

models::State Edits::state(const Edit& edit) const {
  models::State only;
  each(edit, [&](std::int64_t, const models::State& state) { only = state; });
  return only;
}

}  // namespace taugrid::study
