// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// All partitions of a few tasks into clusters, and a basis of any cluster, by any method: also by training on
// its tasks together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/experiments/bases/task_bases.hpp"
#include "suite/merging/data/joint_models.hpp"

namespace taugrid::experiments {

/// What [bases.partitions] is for.
constexpr config::Meaning of_partitions =
    "Merges every partition of a few tasks by several methods, and adds their bases to other tasks";

/// The tasks of which all partitions are taken, and what makes a cluster's basis, in turn.
struct PartitionChoice {
  std::vector<std::size_t> tasks;
  std::vector<ChosenMethod> methods;  ///< joint by its name alone
  std::vector<std::string> regimes;   ///< of whose vectors every method makes bases
  merging::JointModels joint;
};

/// Reads `tasks`, `methods` and `regimes` of [bases.partitions], and the methods' own sections; no tasks
/// where the reference of keys is written. Throws InputError.
PartitionChoice read_partitions(config::Config& config, config::Section& section, const Study& study);

/// The places of named tasks; `key` of the section has the names. Throws InputError.
std::vector<std::size_t> tasks_named(const config::Section& section, const std::string& key,
                                     const std::vector<std::string>& names, const Study& study);

class PartitionBases {
 public:
  /// The method's name that trains one model on a cluster's tasks (paper 2: MTL; of a linear regime,
  /// Tangent).
  static constexpr auto* joint = "joint";

  /// The study outlives it.
  PartitionBases(const Study& study, PartitionChoice choice);

  const std::vector<std::size_t>& tasks() const { return choice_.tasks; }
  const std::vector<ChosenMethod>& methods() const { return choice_.methods; }
  /// The partitions, labels numbered as they come; of four tasks 15.
  const std::vector<std::vector<std::int64_t>>& partitions() const { return partitions_; }
  /// How many sets of the tasks there are, without the empty one.
  std::size_t clusters() const { return (std::size_t{1} << tasks().size()) - 1; }
  /// The tasks of cluster c: those whose bit is in c + 1.
  std::vector<std::size_t> cluster(std::size_t c) const;
  /// The clusters of partition p, in the order of its labels.
  std::vector<std::size_t> clusters_of(std::size_t p) const;

  /// Adds what basis() of so many vectors takes, beside reading them: nothing where a unit has made it.
  void count(Tally& tally, const ChosenMethod& method, const std::string& regime, std::size_t vectors) const;
  /// Whether the method makes bases of the regime's vectors. Joint does of every regime that it can train.
  bool takes(const ChosenMethod& method, const std::string& regime) const;
  /// Whether each cluster's basis is made by a unit of its own, once, since it is trained.
  static bool has_units(const ChosenMethod& method) {
    return method.method_name == joint || method.method->trains();
  }
  /// The units that bases need: of what the method takes of data, or of training.
  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                 const ChosenMethod& method, const std::string& regime) const;
  std::vector<std::string> needs(const ChosenMethod& method, const std::string& regime) const;
  /// [P], on the host.
  at::Tensor basis(const ChosenMethod& method, const std::string& regime,
                   const std::vector<std::size_t>& members, const schedule::RunFolder& folder,
                   schedule::UnitContext& context) const;

 private:
  std::string unit_key(const ChosenMethod& method, const std::string& regime,
                       const std::vector<std::size_t>& members) const;
  void add_unit(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                const ChosenMethod& method, const std::string& regime,
                const std::vector<std::size_t>& members) const;

  const Study& study_;
  PartitionChoice choice_;
  std::vector<std::vector<std::int64_t>> partitions_;
};

}  // namespace taugrid::experiments
