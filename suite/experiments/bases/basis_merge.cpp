// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/bases/basis_merge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "suite/merging/study_vectors.hpp"

namespace taugrid::experiments {
namespace {

constexpr config::Meaning of_method = "The method, of which the section has the parameters";

BasisMerge read_chosen(config::Config& config, const std::string& name, const config::Meaning& meaning,
                       const std::string& fallback, const std::vector<std::string>& known,
                       const Study& study) {
  const auto method = config.section(name, meaning).word("method", of_method, fallback, known);
  return read_basis_method(config, name, meaning, method, study);
}

}  // namespace

std::vector<std::string> BasisMerge::needs(const Study& study, const std::string& regime,
                                           const std::vector<std::size_t>& tasks) const {
  std::vector<std::string> keys;
  if (!with_data || !with_data->has_parts()) return keys;
  for (const auto t : tasks) keys.push_back(key::merging_data(parts, regime, study.tasks.name(t)));
  return keys;
}

void BasisMerge::add_parts(std::vector<schedule::WorkUnit>& units, const Study& study,
                           const std::string& regime, const std::vector<std::size_t>& tasks) const {
  if (!with_data || !with_data->has_parts()) return;
  for (const auto t : tasks)
    units.push_back(unit(needs(study, regime, {t}).front(), with_data->part_work(regime, t),
                         study.vectors.needs(regime, {t}),
                         [method = with_data, &study, regime, t](schedule::UnitContext& context) {
                           return method->part(merging::ModelToMerge(study, regime, t), context);
                         }));
}

void BasisMerge::check_clusters(const std::string& what, ClusterSizes sizes) const {
  for (auto n = sizes.least; method && n <= sizes.most; ++n)  // one vector is its own basis
    method->check(fmt::format("{}, of clusters of up to {} tasks", what, sizes.most),
                  std::vector<double>(n, 1.0));
}

void BasisMerge::check_bases(const std::string& what, std::size_t bases) const {
  if (method)
    method->check(fmt::format("{}, where there may be {} bases", what, bases),
                  std::vector<double>(bases, 1.0));
}

void BasisMerge::count(Tally& tally, const Study& study, const std::string& regime,
                       std::size_t vectors) const {
  if (vectors > 1) count_merge(tally, study, regime, vectors, vectors);
}

void BasisMerge::count_bases(Tally& tally, const Study& study, const std::string& regime,
                             const std::vector<std::size_t>& tasks, std::size_t bases) const {
  const auto held = 4.0 * static_cast<double>(study.model.layout().size()) * static_cast<double>(bases + 1);
  if (with_data) {
    tally.holds_beside(held);
  } else {
    tally.holds(held);
  }
  if (with_data && with_data->has_parts()) {  // which count_merge() has read, as those of tasks' own models
    with_data->count_parts(tally, regime, tasks);
    tally.statistics(regime, tasks, static_cast<std::int64_t>(bases));
  }
  count_merge(tally, study, regime, bases, tasks.size());
}

void BasisMerge::count_merge(Tally& tally, const Study& study, const std::string& regime, std::size_t models,
                             std::size_t tasks) const {
  if (with_data) return with_data->count(tally, regime, models, tasks);
  const auto work = method->work(merging::tensors_of(study), models);
  const auto length = static_cast<double>(study.model.layout().size());
  tally.computes(work.flops).holds(4 * length + work.bytes);
}

std::size_t merged_at_most(std::size_t tasks, std::int64_t clusters) {
  const auto alone =
      std::max<std::int64_t>(0, 2 * clusters - static_cast<std::int64_t>(tasks));  // all else pairs
  return clusters > 0 ? tasks - static_cast<std::size_t>(alone) : tasks;
}

ClusterSizes cluster_sizes(std::size_t tasks, std::int64_t clusters, bool split) {
  const auto others = static_cast<std::size_t>(std::max<std::int64_t>(1, clusters)) - 1;
  return {clusters == 1 && !split ? std::max<std::size_t>(2, tasks) : 2, tasks - std::min(tasks, others)};
}

BasisMerge read_merge(config::Config& config, const std::string& name, const config::Meaning& meaning,
                      const std::string& fallback) {
  auto section = config.section(name, meaning);
  auto method = section.word("method", of_method, fallback, merging::names());
  auto made = merging::make(method, section);
  return {std::move(method), std::move(made)};
}

std::vector<std::string> basis_methods() {
  auto methods = merging::names();
  for (const auto& each : merging::names_with_data())
    if (each != "tangent") methods.push_back(each);
  return methods;
}

std::vector<std::string> methods_of_bases() {
  auto methods = basis_methods();
  std::erase(methods, "joint");
  return methods;
}

BasisMerge read_basis_method(config::Config& config, const std::string& name, const config::Meaning& meaning,
                             const std::string& method, const Study& study) {
  auto section = config.section(name, meaning);
  const auto& data = merging::names_with_data();
  if (std::find(data.begin(), data.end(), method) == data.end())
    return {method, merging::make(method, section)};
  return {method, {}, merging::make_data_method(config, section, {name, name, true}, method, study), name};
}

BasisMerge read_merge_in(config::Config& config, const Study& study) {
  return read_chosen(config, "bases.merge_in",
                     "How a cluster's vectors become one; joint of linear vectors is the paper's Tangent",
                     "linear", basis_methods(), study);
}

BasisMerge read_merge_out(config::Config& config, const Study& study) {
  return read_chosen(config, "bases.merge_out",
                     "How the bases become one; a method with data takes a basis B as the model θ0 + B and "
                     "the data of its cluster's tasks",
                     "task_arithmetic", methods_of_bases(), study);
}

}  // namespace taugrid::experiments
