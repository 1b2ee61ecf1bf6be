// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What bases of a few tasks do for another one (paper 2, section 5): every cluster's basis is added to it,
// θ0 + αB; of a partition counts the basis whose cosine with the task's vector is the largest.
#pragma once

#include <string>
#include <vector>

#include "suite/experiments/bases/partition_bases.hpp"
#include "suite/study/clusters.hpp"

namespace taugrid::experiments {

class PartitionOutside {
 public:
  /// `others`: the tasks outside; `threshold`: the cosine from which on a basis is found. The study and the
  /// bases outlive it.
  PartitionOutside(const Study& study, const PartitionBases& bases, std::vector<std::size_t> others,
                   std::vector<double> alpha, double threshold);

  /// Units of all methods and regimes: a cluster of one task is every method's.
  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const;
  static std::vector<Output> outputs();
  /// Writes them into the method's group; nothing where no task is outside.
  void write(Results& out, const Finished& done, const ChosenMethod& method, const std::string& regime,
             const std::string& group) const;

 private:
  using Clusters = std::vector<std::size_t>;
  /// The clusters of one task, or of several.
  Clusters clusters(bool alone) const;
  void add_unit(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                const std::string& regime, const ChosenMethod& method, bool alone, std::size_t t) const;
  store::TensorFile added(const std::string& regime, const ChosenMethod& method, bool alone, std::size_t t,
                          const schedule::RunFolder& folder, schedule::UnitContext& context) const;
  /// cosine [C], held_validation, held_test [C,A] of all clusters, from both units.
  std::map<std::string, at::Tensor> together(const Finished& done, const ChosenMethod& method,
                                             const std::string& regime, std::size_t t) const;
  /// The models with a cluster's basis: of clusters of one task its vector, whatever the method.
  Edit edit(const ChosenMethod& method, bool alone, const std::string& regime,
            const std::vector<std::size_t>& members, const at::Tensor& basis = {}) const;
  std::string unit_key(const ChosenMethod& method, bool alone, const std::string& regime,
                       std::size_t t) const;

  const Study& study_;
  const PartitionBases& bases_;
  std::vector<std::size_t> others_;
  std::vector<double> alpha_;
  double threshold_;
};

}  // namespace taugrid::experiments
