// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Models trained on several tasks together, beside the task vectors of a regime (paper 2: MTL, and Tangent
// of the linear regime): for as many steps as each of the tasks alone takes, together.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "suite/merging/data/data_method.hpp"
#include "suite/training/training.hpp"

namespace taugrid::merging {

class JointModels {
 public:
  /// How the regime of such models is trained is said by [finetune], which the study's regimes are read from
  /// too; none where it is not there. The study outlives it.
  JointModels(const Study& study, config::Config& config);

  /// The regime that trains tasks together, in the same function as this one of task vectors; empty where
  /// there is none.
  static std::string regime_of(const std::string& vectors);
  /// Throws InputError, about `key` of the section, where nothing says how to train, or a step has no room
  /// for a point of each of so many tasks.
  void check(const config::Section& section, const std::string& key, const std::string& method,
             std::size_t tasks) const;

  /// Its steps are the tasks' together.
  training::Training how(const std::string& vectors, const std::vector<std::size_t>& members) const;
  /// The unit that trains it. One model of all tasks is the regime's own (key::joint()) where the run has
  /// this regime, trained for as many steps, or has it not.
  std::string unit_key(const std::string& vectors, const std::vector<std::size_t>& members) const;
  std::filesystem::path folder(const std::string& vectors, const std::vector<std::size_t>& members) const;
  /// Adds this unit, if it is not there: several experiments may want the model.
  void add_unit(std::vector<schedule::WorkUnit>& units, const std::string& vectors,
                const std::vector<std::size_t>& members) const;

  /// θ − θ0 [P] of a finished one, on the host.
  at::Tensor vector(const std::string& vectors, const std::vector<std::size_t>& members) const;

 private:
  std::string name_of(const std::string& vectors, const std::vector<std::size_t>& members) const;

  const Study& study_;
  std::map<std::string, training::Training> training_;
};

}  // namespace taugrid::merging
