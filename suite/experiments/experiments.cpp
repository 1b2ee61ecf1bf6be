// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"

namespace taugrid::experiments {

Experiments make_experiments(config::Config& config, const Study& study) {
  Experiments all;
  const auto add = [&](std::unique_ptr<Experiment> experiment) {
    if (experiment) all.push_back(std::move(experiment));
  };
  add(make_pretrain(config, study));
  if (!all.empty()) return all;  // a run either makes a model or measures one
  add(make_fine_tune(config, study));
  add(make_single_task(config, study));
  add(make_similarity(config, study));
  add(make_tau_jp(config, study));
  add(make_disentanglement(config, study));
  add(make_smoothness(config, study));
  add(make_ntk(config, study));
  add(make_addition(config, study));
  add(make_pair_addition(config, study));
  add(make_negation(config, study));
  add(make_continuation(config, study));
  add(make_cost(config, study));
  if (study.regimes().empty()) {
    for (const auto* section :
         {"similarity", "disentanglement", "smoothness", "addition", "pair_addition", "negation"}) {
      if (config.has(section))
        throw InputError(
            std::string("section [") + section +
            "] needs task vectors; add a section [finetune] with a regime that makes them, such as "
            "standard or linear");
    }
  }
  return all;
}

}  // namespace taugrid::experiments
