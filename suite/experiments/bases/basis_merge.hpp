// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How vectors become a basis, and bases one model: methods with data or without, by [bases.merge_in],
// [bases.merge_out] and their like.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/merging/chosen_method.hpp"

namespace taugrid::experiments {

using merging::ChosenMethod;

/// How many tasks clusters of more than one have.
struct ClusterSizes {
  std::size_t least = 2, most = 0;
};

/// The sizes where so many tasks are all in clusters; `clusters`: 0 where it is not known; `split`: whether
/// there may be more.
ClusterSizes cluster_sizes(std::size_t tasks, std::int64_t clusters, bool split);

/// How many of so many tasks are in clusters of more than one, at most; `clusters`: 0 where it is not known.
std::size_t merged_at_most(std::size_t tasks, std::int64_t clusters);

/// Throws InputError, beginning with `what`, where the method cannot make a basis of every size of cluster;
/// or one model of so many bases.
void check_clusters(const std::string& what, const ChosenMethod& merge, ClusterSizes sizes);
void check_bases(const std::string& what, const ChosenMethod& merge, std::size_t bases);

/// Adds one merge of so many tasks' vectors, beside reading them and holding what it makes; of less than
/// two there is none.
void count_cluster(Tally& tally, const ChosenMethod& merge, const std::string& regime, std::size_t vectors);
/// Adds the merge of so many bases of these tasks' vectors, with what it is made of and what it makes.
void count_bases(Tally& tally, const ChosenMethod& merge, const std::string& regime,
                 const std::vector<std::size_t>& tasks, std::size_t bases);

/// Reads section `name`: a method without data, and its parameters. Throws InputError.
ChosenMethod read_merge(config::Config& config, const std::string& name, const config::Meaning& meaning,
                        const std::string& fallback, const Study& study);
/// The methods of a basis: all, with data or without, but tangent, which is joint beside linear vectors.
std::vector<std::string> basis_methods();
/// The methods that merge bases: all but joint training, which takes tasks alone, whatever their vectors.
std::vector<std::string> methods_of_bases();
/// Reads the parameters of one of either from section `name`. Throws InputError.
ChosenMethod read_basis_method(config::Config& config, const std::string& name,
                               const config::Meaning& meaning, const std::string& method, const Study& study);
/// Reads [bases.merge_in], how a cluster's vectors become a basis, by a method of basis_methods(). Throws
/// InputError.
ChosenMethod read_merge_in(config::Config& config, const Study& study);
/// Reads [bases.merge_out], how the bases become one model, by a method of methods_of_bases(). Throws
/// InputError.
ChosenMethod read_merge_out(config::Config& config, const Study& study);

}  // namespace taugrid::experiments
