// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/task_sets.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace taugrid::study {
namespace {

/// Whether there are more than `most` sets of `size` of `tasks` tasks.
bool are_more(std::size_t size, std::size_t tasks, std::int64_t most) {
  double count = 1;
  for (std::size_t i = 0; i < std::min(size, tasks - size); ++i)
    count *= static_cast<double>(tasks - i) / static_cast<double>(i + 1);
  return count > static_cast<double>(most) + 0.5;
}

/// All of them, in lexicographic order.
std::vector<TaskSet> every_set(std::size_t size, std::size_t tasks) {
  std::vector<TaskSet> all;
  TaskSet set(size);
  std::iota(set.begin(), set.end(), std::size_t{0});
  while (true) {
    all.push_back(set);
    auto at = size;
    while (at > 0 && set[at - 1] == tasks - size + at - 1) --at;
    if (at == 0) return all;
    ++set[at - 1];
    std::iota(set.begin() + static_cast<std::ptrdiff_t>(at), set.end(), set[at - 1] + 1);
  }
}

}  // namespace

std::vector<TaskSet> task_sets(const Study& study, const std::string& purpose, std::size_t size,
                               std::int64_t most) {
  const auto tasks = study.tasks.size();
  if (size > tasks) return {};
  if (!are_more(size, tasks, most)) return every_set(size, tasks);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(
      seed_for(study.settings.seed, fmt::format("{}/{}", purpose, size)));
  std::set<TaskSet> drawn;  // one that comes a second time is drawn again
  while (static_cast<std::int64_t>(drawn.size()) < most) {
    const auto order = at::randperm(static_cast<std::int64_t>(tasks), generator, at::kLong);
    const auto* first = order.const_data_ptr<std::int64_t>();
    TaskSet set(first, first + size);
    std::sort(set.begin(), set.end());
    drawn.insert(std::move(set));
  }
  return {drawn.begin(), drawn.end()};
}

std::string joined_names(const Study& study, const std::vector<std::size_t>& tasks) {
  std::vector<std::string> names;
  for (const auto t : tasks) names.push_back(study.tasks.name(t));
  return fmt::format("{}", fmt::join(names, "+"));
}

bool holds(const TaskSet& set, std::size_t t) { return std::binary_search(set.begin(), set.end(), t); }

at::Tensor memberships(const std::vector<TaskSet>& sets, std::size_t tasks) {
  auto member =
      at::zeros({static_cast<std::int64_t>(sets.size()), static_cast<std::int64_t>(tasks)}, at::kByte);
  for (std::size_t s = 0; s < sets.size(); ++s)
    for (const auto t : sets[s]) member[static_cast<std::int64_t>(s)][static_cast<std::int64_t>(t)].fill_(1);
  return member;
}

}  // namespace taugrid::study
