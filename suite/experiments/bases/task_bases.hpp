// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task vector bases (paper 2, algorithm 1): tasks are clustered by |cos| of their vectors, and each cluster's
// vectors become one basis.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "suite/experiments/bases/basis_merge.hpp"
#include "suite/experiments/edits/chosen_edit.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/study/clusters.hpp"
#include "suite/study/edited_outputs.hpp"

namespace taugrid::experiments {

/// What [bases] is for.
constexpr config::Meaning of_bases =
    "Task vector bases: vectors clustered by their cosines, merged in each cluster, then all";

/// Reads split_below of [bases]: the cosine δ below which a cluster is split by sign; −1: none is.
double read_split(config::Config& config);

/// The bases of these clusters, [P] each, on the host. A cluster of one is its vector.
std::vector<at::Tensor> bases_of(const study::Study& study, const std::string& regime,
                                 const study::Clusters& clusters, const ChosenMethod& merge,
                                 const schedule::RunFolder& folder, schedule::UnitContext& context);

/// τ [P] of these clusters' bases, on the device: what merge_out makes of them. A method with data takes of a
/// basis B of a cluster the model θ0 + B and the data of the cluster's tasks.
at::Tensor merged_bases(const study::Study& study, const std::string& regime, const study::Clusters& clusters,
                        const std::vector<at::Tensor>& bases, const ChosenMethod& merge_out,
                        const schedule::UnitContext& context);

/// θ0 + αB, B [P] the basis of these tasks' vectors, as merge_in makes it: one that is only counted has none.
Edit basis_edit(const ChosenMethod& merge_in, const std::string& regime,
                const std::vector<std::size_t>& tasks, const std::vector<double>& alpha,
                at::Tensor basis = {});

/// θ0 + ατ at any coefficients, τ made of the bases of these tasks: Σ c_t τ_t where there are factors c [T],
/// so that a linear regime adds tangents that were computed once, else along `direction`, which is τ.
EditAt merged_edit(const std::string& regime, const std::vector<std::size_t>& tasks,
                   const std::optional<at::Tensor>& factors, const at::Tensor& direction = {});

/// Keys of the units for models with bases of some of these tasks, seen on points of task b: also of those
/// that make the vectors.
std::vector<std::string> basis_needs(const Study& study, const ChosenMethod& merge_in,
                                     const std::string& regime, const std::vector<std::size_t>& tasks,
                                     std::size_t b);

/// c [T], float64, of Σ c_t τ_t, which is what merge_in and merge_out make of these labels, where neither
/// does more than add and divide.
std::optional<at::Tensor> factors_of(const std::vector<std::int64_t>& labels, const ChosenMethod& merge_in,
                                     const ChosenMethod& merge_out);

/// What [bases.low_rank] is for.
constexpr config::Meaning of_low_rank =
    "Bases without clusters, of the Gram matrix of the vectors alone: accuracy of their sum";

/// Which bases without clusters there are: by each method so many.
struct LowRankChoice {
  std::vector<std::string> methods;
  std::vector<int> bases;
};

/// Reads `methods` and `bases` of [bases.low_rank]. Throws InputError.
LowRankChoice read_low_rank(config::Section& section, const study::Study& study);

/// Σ c_t τ_t [P], on the device, of float64 factors [T].
at::Tensor combined(const study::Study& study, const std::string& regime,
                    const std::vector<std::size_t>& tasks, const at::Tensor& factors);

/// cos(τ, B) for each basis: float64 [k]; 0 for a vector that is zero.
at::Tensor cosines_with(const at::Tensor& tau, const std::vector<at::Tensor>& bases);

}  // namespace taugrid::experiments
