// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What [merging] asks for: methods by name, each with its parameters.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/merging/chosen_method.hpp"

namespace taugrid::experiments {

/// A method of [merging], by its name or, with other parameters, by another that a section gives it.
struct ChosenMerge : merging::ChosenMethod {
  std::vector<double> alpha;
  /// As a recipe has them, but for those that RecipeNote adds.
  std::map<std::string, std::string> parameters;
};

struct MergingChoice {
  std::vector<ChosenMerge> methods;
  std::vector<std::string> regimes;  ///< whose vectors are merged; each method takes one of them at least
  bool save = false;
};

/// Reads [merging] and the methods' own sections; none where the run does not ask for it. Throws InputError.
/// The study outlives what is read.
std::optional<MergingChoice> read_merging(config::Config& config, const study::Study& study);

/// merge.toml, as it stands in folder `to`: how the model there was made, of these tasks at α; a recipe for
/// `taugrid merge` where the method needs no data, or no more than λ of masks that were chosen by it.
std::string merge_recipe(const study::Study& study, const ChosenMerge& chosen, const std::string& regime,
                         const std::vector<std::size_t>& tasks, double alpha,
                         const std::filesystem::path& to);

}  // namespace taugrid::experiments
