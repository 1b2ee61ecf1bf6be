// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/support/registry.hpp"

#include <algorithm>

#include "suite/error.hpp"

namespace taugrid::experiments {

Experiments make_experiments(config::Config& config, const Study& study) {
  auto all = registered();
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
  Experiments made;
  std::string alone;
  for (const auto& each : all) {  // all are asked, so that all sections are known
    auto experiment = each.maker(config, study);
    if (!experiment) continue;
    if (experiment->alone()) {
      alone = each.name;
      made.clear();
    } else if (!alone.empty()) {
      continue;
    }
    made.push_back(std::move(experiment));
  }
  if (!alone.empty()) config.require_alone(alone);
  return made;
}

std::unique_ptr<Experiment> make_experiment(const std::string& name, config::Config& config,
                                            const Study& study) {
  for (const auto& each : registered()) {
    if (each.name == name) return each.maker(config, study);
  }
  throw std::logic_error("no experiment " + name);
}

void require_vectors(const Study& study, const std::string& section) {
  if (study.settings.vector_regimes.empty())
    throw InputError("section [" + section +
                     "] needs task vectors; add a section [finetune] with a regime that makes them, such as "
                     "standard or linear");
}

}  // namespace taugrid::experiments
