// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/edits.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/weights/weights.hpp"
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
  return statistics.found;
}

at::Tensor Edits::recomputed(const at::Tensor& theta, const std::vector<std::size_t>& tasks) const {
  std::vector<Sample> samples;
  std::int64_t all = 0;
  for (const auto t : tasks) {
    samples.push_back(tasks_.sample(t, Split::train, points_a_task(tasks.size()), settings_.first_stage));
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
    const auto found = statistics_of(theta, models::joined(parts));
    for (std::size_t i = 0; i < found.size(); ++i) {
      auto& view = views[views.size() - found.size() + i];  // frozen stages, which are the first, found none
      if (k == 0) view.zero_();
      view.add_(found[i].to(at::kFloat), 1 / static_cast<double>(batches));
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

at::Tensor Edits::buffers(const std::string& name, const std::string& regime,
                          const std::vector<std::size_t>& tasks, const at::Tensor& alpha,
                          const at::Tensor& theta) const {
  const auto& start = model_.start().buffers;
  if (!start.defined()) return start;
  std::vector<std::size_t> edited;
  std::string key;
  double last = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto one = alpha[static_cast<std::int64_t>(i)].item<double>();
    if (one == 0) continue;
    edited.push_back(tasks[i]);
    key += fmt::format("{} {:a} ", tasks[i], last = one);
  }
  if (edited.empty()) return start;
  if (edited.size() == 1 && last == 1 && !name.empty())
    return start + vectors_.buffers(regime, edited.front());
  if (settings_.buffers == "average") return averaged(regime, tasks, alpha);
  if (!recomputes(regime)) return start;
  if (name.empty()) return recomputed(theta, edited);
  constexpr std::size_t most = 1024;
  if (found_.size() >= most) found_.clear();
  auto& found = found_[name + " " + regime + " " + key];
  if (!found.defined()) found = recomputed(theta, edited);
  return found;
}

void Edits::each(const std::string& regime, const std::vector<std::size_t>& tasks, const at::Tensor& alpha,
                 const std::function<void(std::int64_t, const models::State&)>& see) const {
  const auto rows = alpha.size(0);
  std::vector<at::Tensor> vectors;
  for (const auto t : tasks) vectors.push_back(vectors_.vector(regime, t));
  const auto step = std::clamp<std::int64_t>(at_once(), 1, std::max<std::int64_t>(rows, 1));
  auto models = at::empty({step, model_.layout().size()}, model_.theta0().options());
  for (std::int64_t k = 0; k < rows; k += step) {
    const auto m = std::min(step, rows - k);
    auto some = models.narrow(0, 0, m);
    weights::combine(model_.theta0(), vectors, alpha.narrow(0, k, m), some);
    for (std::int64_t i = 0; i < m; ++i)
      see(k + i, {some[i], buffers("each", regime, tasks, alpha[k + i], some[i])});
  }
}

models::State Edits::sum(const std::string& regime, const std::vector<std::size_t>& tasks,
                         double alpha) const {
  const auto all = at::full({static_cast<std::int64_t>(tasks.size())}, alpha, at::kDouble);
  const auto theta = at::add(model_.theta0(), vectors_.sum(regime, tasks), alpha);
  return {theta, buffers("sum", regime, tasks, all, theta)};
}

models::State Edits::along(const std::string& regime, const std::vector<std::size_t>& tasks,
                           const at::Tensor& tau, double alpha) const {
  const auto count = static_cast<std::int64_t>(tasks.size());
  const auto all = at::full({count}, alpha / static_cast<double>(count), at::kDouble);
  const auto theta = at::add(model_.theta0(), tau, alpha);
  return {theta, buffers({}, regime, tasks, all, theta)};
}

models::State Edits::own(const std::string& regime, std::size_t t) const {
  models::State state{model_.theta0() + vectors_.vector(regime, t), model_.start().buffers};
  if (state.buffers.defined()) state.buffers = state.buffers + vectors_.buffers(regime, t);
  return state;
}

}  // namespace taugrid::study
