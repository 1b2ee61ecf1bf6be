// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How vectors become a basis, and bases one model: methods with data or without, by [bases.merge_in],
// [bases.merge_out] and their like.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/merging/data/data_method.hpp"
#include "suite/merging/method.hpp"

namespace taugrid::experiments {

/// How many tasks clusters of more than one have.
struct ClusterSizes {
  std::size_t least = 2, most = 0;
};

/// Of so many tasks, all of which are in clusters; `clusters`: 0 where it is not known; `split`: whether
/// there may be more.
ClusterSizes cluster_sizes(std::size_t tasks, std::int64_t clusters, bool split);

/// How vectors become one.
struct BasisMerge {
  std::string name;
  std::shared_ptr<const merging::Method> method;  ///< or with_data
  std::shared_ptr<const merging::DataMethod> with_data = {};
  std::string parts = {};  ///< what stands for the method in the keys of its units: the section

  /// Keys of the units of what these tasks' data give, of their own models.
  std::vector<std::string> needs(const Study& study, const std::string& regime,
                                 const std::vector<std::size_t>& tasks) const;
  /// These units, which stand in one run once, whoever needs them.
  void add_parts(std::vector<schedule::WorkUnit>& units, const Study& study, const std::string& regime,
                 const std::vector<std::size_t>& tasks) const;
  /// Throws InputError, beginning with `what`, where it cannot make a basis of every size of cluster; or one
  /// model of so many bases.
  void check_clusters(const std::string& what, ClusterSizes sizes) const;
  void check_bases(const std::string& what, std::size_t bases) const;
  /// Whether a merge is itself a training.
  bool trains() const { return with_data && with_data->trains(); }
  /// Adds one merge of so many tasks' vectors, beside reading them and holding what it makes; of less than
  /// two there is none.
  void count(Tally& tally, const Study& study, const std::string& regime, std::size_t vectors) const;
  /// Adds the merge of so many bases of these tasks' vectors, with what it is made of and what it makes.
  void count_bases(Tally& tally, const Study& study, const std::string& regime,
                   const std::vector<std::size_t>& tasks, std::size_t bases) const;

 private:
  void count_merge(Tally& tally, const Study& study, const std::string& regime, std::size_t models,
                   std::size_t tasks) const;
};

/// How many of so many tasks are in clusters of more than one, at most; `clusters`: 0 where it is not known.
std::size_t merged_at_most(std::size_t tasks, std::int64_t clusters);

/// Reads section `name`: a method without data, and its parameters. Throws InputError.
BasisMerge read_merge(config::Config& config, const std::string& name, const config::Meaning& meaning,
                      const std::string& fallback);
/// The methods of a basis: all, with data or without, but tangent, which is joint beside linear vectors.
std::vector<std::string> basis_methods();
/// Those that merge bases: all but joint training, which takes tasks alone, whatever their vectors.
std::vector<std::string> methods_of_bases();
/// Reads the parameters of one of either from section `name`. Throws InputError.
BasisMerge read_basis_method(config::Config& config, const std::string& name, const config::Meaning& meaning,
                             const std::string& method, const Study& study);
/// Reads [bases.merge_in], how a cluster's vectors become a basis, by a method of basis_methods(). Throws
/// InputError.
BasisMerge read_merge_in(config::Config& config, const Study& study);
/// Reads [bases.merge_out], how the bases become one model, by a method of methods_of_bases(). Throws
/// InputError.
BasisMerge read_merge_out(config::Config& config, const Study& study);

}  // namespace taugrid::experiments
