// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/bases/basis_merge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "suite/merging/table.hpp"

namespace taugrid::experiments {
namespace {

constexpr config::Meaning of_method = "The method, of which the section has the parameters";

ChosenMethod read_chosen(config::Config& config, const std::string& name, const config::Meaning& meaning,
                         const std::string& fallback, const std::vector<std::string>& known,
                         const Study& study) {
  const auto method = config.section(name, meaning).word("method", of_method, fallback, known);
  return read_basis_method(config, name, meaning, method, study);
}

}  // namespace

ClusterSizes cluster_sizes(std::size_t tasks, std::int64_t clusters, bool split) {
  const auto others = static_cast<std::size_t>(std::max<std::int64_t>(1, clusters)) - 1;
  return {clusters == 1 && !split ? std::max<std::size_t>(2, tasks) : 2, tasks - std::min(tasks, others)};
}

std::size_t merged_at_most(std::size_t tasks, std::int64_t clusters) {
  const auto alone =
      std::max<std::int64_t>(0, 2 * clusters - static_cast<std::int64_t>(tasks));  // all else pairs
  return clusters > 0 ? tasks - static_cast<std::size_t>(alone) : tasks;
}

void check_clusters(const std::string& what, const ChosenMethod& merge, ClusterSizes sizes) {
  for (auto n = sizes.least; n <= sizes.most; ++n)  // one vector is its own basis
    merge.method->check(fmt::format("{}, of clusters of up to {} tasks", what, sizes.most),
                        std::vector<double>(n, 1.0));
}

void check_bases(const std::string& what, const ChosenMethod& merge, std::size_t bases) {
  merge.method->check(fmt::format("{}, where there may be {} bases", what, bases),
                      std::vector<double>(bases, 1.0));
}

void count_cluster(Tally& tally, const ChosenMethod& merge, const std::string& regime, std::size_t vectors) {
  if (vectors > 1) merge.method->count(tally, regime, vectors, vectors);
}

void count_bases(Tally& tally, const ChosenMethod& merge, const std::string& regime,
                 const std::vector<std::size_t>& tasks, std::size_t bases) {
  const auto held =
      4.0 * static_cast<double>(tally.study().model.layout().size()) * static_cast<double>(bases + 1);
  if (merge.method->takes_data()) {
    tally.holds_beside(held);
  } else {
    tally.holds(held);
  }
  if (merge.method->has_parts()) {  // which count() takes as read, as those of tasks' own models are
    merge.method->count_parts(tally, regime, tasks);
    tally.statistics(regime, tasks, static_cast<std::int64_t>(bases));
  }
  merge.method->count(tally, regime, bases, tasks.size());
}

ChosenMethod read_merge(config::Config& config, const std::string& name, const config::Meaning& meaning,
                        const std::string& fallback, const Study& study) {
  return read_chosen(config, name, meaning, fallback, merging::names_of_vectors(), study);
}

std::vector<std::string> basis_methods() {
  auto methods = merging::names();
  std::erase(methods, "tangent");
  return methods;
}

std::vector<std::string> methods_of_bases() {
  auto methods = basis_methods();
  std::erase(methods, "joint");
  return methods;
}

ChosenMethod read_basis_method(config::Config& config, const std::string& name,
                               const config::Meaning& meaning, const std::string& method,
                               const Study& study) {
  const auto make = merging::entry(method).read(config.section(name, meaning),
                                                {.tasks = study.tasks.size(), .of_cluster = true});
  return {method, name, make({config, study, name, name})};
}

ChosenMethod read_merge_in(config::Config& config, const Study& study) {
  return read_chosen(config, "bases.merge_in",
                     "How a cluster's vectors become one; joint of linear vectors is the paper's Tangent",
                     "linear", basis_methods(), study);
}

ChosenMethod read_merge_out(config::Config& config, const Study& study) {
  return read_chosen(config, "bases.merge_out",
                     "How the bases become one; a method with data takes a basis B as the model θ0 + B and "
                     "the data of its cluster's tasks",
                     "task_arithmetic", methods_of_bases(), study);
}

}  // namespace taugrid::experiments
