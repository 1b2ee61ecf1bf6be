// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/merged_tasks.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "suite/error.hpp"
#include "suite/study/keys.hpp"

namespace taugrid::study {

std::vector<std::size_t> merged_tasks(const Study& study, const schedule::RunFolder& folder,
                                      const std::string& regime) {
  if (!study.settings.beat_majority) return study.tasks.all();
  std::vector<std::size_t> kept;
  for (const auto t : study.tasks.all())
    if (folder.read_tensor(key::single_task(regime, study.tasks.name(t)), "beats_majority").item<bool>())
      kept.push_back(t);
  if (kept.empty())
    throw InputError(
        fmt::format("data.beat_majority leaves no task: of none of the {} is the model of {} right "
                    "on more validation points than the most frequent class has",
                    study.tasks.size(), regime));
  return kept;
}

std::vector<std::string> merged_needs(const Study& study, const std::string& regime) {
  std::vector<std::string> needs;
  if (!study.settings.beat_majority) return needs;
  for (const auto t : study.tasks.all()) needs.push_back(key::single_task(regime, study.tasks.name(t)));
  return needs;
}

at::Tensor among_all(const at::Tensor& values, std::int64_t dimension, const std::vector<std::size_t>& kept,
                     std::size_t tasks, double other) {
  auto shape = values.sizes().vec();
  shape[static_cast<std::size_t>(dimension)] = static_cast<std::int64_t>(tasks);
  const auto index = at::tensor(std::vector<std::int64_t>(kept.begin(), kept.end()), at::kLong);
  return at::full(shape, other, values.options()).index_copy_(dimension, index, values);
}

}  // namespace taugrid::study
