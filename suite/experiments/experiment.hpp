// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// An experiment: the work units it splits into, and what it writes once they are done.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/experiments/study.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/schedule/work_unit.hpp"
#include "suite/store/results.hpp"

namespace taugrid::experiments {

/// Finished units, read where results.h5 is written.
struct Finished {
  const schedule::RunFolder& folder;
  const comm::Communicator& world;
};

class Experiment {
 public:
  explicit Experiment(const Study& study) : study_(study) {}
  virtual ~Experiment() = default;

  /// Appends its units. `folder` outlives them: units read what they need of others' results from it.
  virtual void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const = 0;
  /// Writes its groups of results.h5. Collective over all ranks.
  virtual void write(store::ResultsWriter& out, const Finished& done) const = 0;

 protected:
  const Study& study_;
};

using Experiments = std::vector<std::unique_ptr<Experiment>>;

/// The experiments that the configuration's sections ask for. Throws InputError.
Experiments make_experiments(config::Config& config, const Study& study);

// Each reads its own section; nullptr where the section is absent.
std::unique_ptr<Experiment> make_pretrain(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_fine_tune(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_single_task(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_similarity(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_tau_jp(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_disentanglement(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_smoothness(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_ntk(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_addition(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_pair_addition(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_negation(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_continuation(config::Config& config, const Study& study);
std::unique_ptr<Experiment> make_cost(config::Config& config, const Study& study);

}  // namespace taugrid::experiments
