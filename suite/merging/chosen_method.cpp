// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/chosen_method.hpp"

#include <algorithm>

namespace taugrid::merging {

std::string ChosenMethod::part_key(const Study& study, const std::string& regime_name, std::size_t t) const {
  return key::merging_data(method->parts_of(name), regime_name, study.tasks.name(t));
}

std::vector<std::string> ChosenMethod::needs(const Study& study, const std::string& regime_name,
                                             const std::vector<std::size_t>& tasks) const {
  auto keys = method->needs(regime_name);
  for (const auto t : tasks)
    if (method->has_parts()) keys.push_back(part_key(study, regime_name, t));
  return keys;
}

void ChosenMethod::add_units(std::vector<schedule::WorkUnit>& units, const Study& study,
                             const std::string& regime_name, const std::vector<std::size_t>& tasks,
                             const schedule::RunFolder& folder) const {
  method->add_units(units, regime_name, folder);
  if (!method->has_parts()) return;
  for (const auto t : tasks) {
    const auto unit_key = part_key(study, regime_name, t);
    if (std::any_of(units.begin(), units.end(), [&](const auto& each) { return each.key == unit_key; }))
      continue;
    units.push_back(unit(unit_key, method->part_work(study, regime_name, t),
                         study.vectors.needs(regime_name, {t}),
                         [method = method, &study, regime_name, t](schedule::UnitContext& context) {
                           return method->part(ModelToMerge(study, regime_name, t), context);
                         }));
  }
}

}  // namespace taugrid::merging
