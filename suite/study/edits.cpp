// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/edits.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/weights/weights.hpp"

namespace taugrid::study {

std::int64_t Edits::at_once() const {
  constexpr std::int64_t numbers = std::int64_t{1} << 28;  // of models held at once: 1 GiB
  return std::max<std::int64_t>(1, numbers / model_.layout().size());
}

at::Tensor Edits::buffers(const std::string& regime, const std::vector<std::size_t>& tasks,
                          const at::Tensor& alpha) const {
  const auto& start = model_.start().buffers;
  if (!start.defined() || settings_.buffers == "keep") return start;
  auto sum = start.clone();
  for (std::size_t i = 0; i < tasks.size(); ++i)
    sum.add_(vectors_.buffers(regime, tasks[i]), alpha[static_cast<std::int64_t>(i)].item<double>());
  // Means and variances take turns; beyond the fine-tuned models a sum of variances may be less than none.
  const auto& layout = model_.encoder().buffers();
  auto views = layout.views(sum);
  for (std::size_t i = 1; i < views.size(); i += 2) views[i].clamp_min_(0);
  return sum;
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
    for (std::int64_t i = 0; i < m; ++i) see(k + i, {some[i], buffers(regime, tasks, alpha[k + i])});
  }
}

models::State Edits::sum(const std::string& regime, const std::vector<std::size_t>& tasks,
                         double alpha) const {
  const auto all = at::full({static_cast<std::int64_t>(tasks.size())}, alpha, at::kDouble);
  return {at::add(model_.theta0(), vectors_.sum(regime, tasks), alpha), buffers(regime, tasks, all)};
}

models::State Edits::along(const std::string& regime, const std::vector<std::size_t>& tasks,
                           const at::Tensor& tau, double alpha) const {
  const auto count = static_cast<std::int64_t>(tasks.size());
  const auto all = at::full({count}, alpha / static_cast<double>(count), at::kDouble);
  return {at::add(model_.theta0(), tau, alpha), buffers(regime, tasks, all)};
}

models::State Edits::own(const std::string& regime, std::size_t t) const {
  models::State state{model_.theta0() + vectors_.vector(regime, t), model_.start().buffers};
  if (state.buffers.defined()) state.buffers = state.buffers + vectors_.buffers(regime, t);
  return state;
}

}  // namespace taugrid::study
