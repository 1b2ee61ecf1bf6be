// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/registry.hpp"

#include <algorithm>
#include <tuple>

#include "suite/error.hpp"

namespace taugrid::experiments {

namespace {

std::vector<Registered> in_order() {
  auto all = registered();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.place, a.name) < std::tie(b.place, b.name);
  });
  return all;
}

}  // namespace

std::vector<OutputGroup> declared_outputs() {
  std::vector<OutputGroup> groups;
  for (const auto& each : in_order())
    for (auto& group : each.declare()) groups.push_back(std::move(group));
  return groups;
}

Contents contents_of(const Experiments& experiments, const Study& study,
                     const std::vector<OutputGroup>& more) {
  auto declared = declared_outputs();
  declared.insert(declared.end(), more.begin(), more.end());
  std::vector<WrittenGroup> written;
  for (const auto& experiment : experiments)
    for (auto& group : experiment->written()) written.push_back(std::move(group));
  return {study, std::move(declared), std::move(written)};
}

Experiments make_experiments(config::Config& config, const Study& study) {
  const auto all = in_order();
  Experiments experiments;
  std::string alone;
  for (const auto& each : all) {  // all are asked, so that all sections are known
    auto experiment = each.maker(config, study);
    if (!experiment) continue;
    if (study.model.by_stages() && !experiment->runs_by_stages())
      throw InputError("model.in_memory is \"" + study.settings.in_memory + "\", and [" + each.name +
                       "] takes whole models; expected \"whole\", or a run without this section");
    if (experiment->alone()) {
      alone = each.name;
      experiments.clear();
    } else if (!alone.empty()) {
      continue;
    }
    experiments.push_back(std::move(experiment));
  }
  if (!alone.empty()) config.require_alone(alone);
  return experiments;
}

std::vector<schedule::WorkUnit> units_of(const Experiments& experiments, const Study& study,
                                         const schedule::RunFolder& folder) {
  std::vector<schedule::WorkUnit> units;
  for (const auto& each : experiments) each->add_units(units, folder);
  if (!study.settings.trains_heads) return units;
  std::vector<std::string> heads;
  for (std::size_t t = 0; t < study.tasks.with_control(); ++t)
    heads.push_back(key::head(study.model.name(), study.tasks.name(t)));
  for (auto& unit : units) {
    if (std::find(heads.begin(), heads.end(), unit.key) != heads.end()) continue;
    add_missing(unit.needs, heads);
    unit.compute = [&study, compute = std::move(unit.compute)](schedule::UnitContext& context) {
      study.readouts.take_heads(study.vectors.folder());
      return compute(context);
    };
  }
  return units;
}

std::unique_ptr<Experiment> make_experiment(const std::string& name, config::Config& config,
                                            const Study& study) {
  for (const auto& each : registered()) {
    if (each.name == name) return each.maker(config, study);
  }
  throw std::logic_error("no experiment " + name);
}

}  // namespace taugrid::experiments
