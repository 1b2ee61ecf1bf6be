// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What [merging] asks for: methods by name, each with its parameters.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "suite/merging/data/data_method.hpp"
#include "suite/merging/method.hpp"

namespace taugrid::experiments {

struct ChosenMerge {
  std::string name;  ///< in [merging] methods: the method's, or one for it with other parameters
  std::string of;    ///< the method
  std::unique_ptr<const merging::Method> method;  ///< or with_data
  std::unique_ptr<const merging::DataMethod> with_data;
  std::vector<double> alpha;
  /// As a recipe has them, but for λ of masks that each task chooses.
  std::map<std::string, std::string> parameters;
  std::map<std::string, std::string> masks;  ///< settings of the masks that it takes from another method

  /// Whether it makes a model beside this regime's vectors.
  bool takes(const std::string& regime) const { return !with_data || with_data->takes(regime); }
  /// The units whose results the merge takes, beside the vectors: of a task, and of all together.
  std::vector<std::string> needs(const Study& study, const std::string& regime) const;
  /// The unit of what task t's data give; with_data has parts.
  std::string part_key(const Study& study, const std::string& regime, std::size_t t) const;
};

struct MergingChoice {
  std::vector<ChosenMerge> methods;
  bool save = false;
};

/// Reads [merging] and the methods' own sections; none where the run does not ask for it. Throws InputError.
/// The study outlives what is read.
std::optional<MergingChoice> read_merging(config::Config& config, const Study& study);

/// merge.toml, as it stands in folder `to`: how the model there was made, of these tasks at α; a recipe for
/// `taugrid merge` where the method needs no data, or no more than λ of masks that were chosen by it.
std::string merge_recipe(const Study& study, const ChosenMerge& chosen, const std::string& regime,
                         const std::vector<std::size_t>& tasks, double alpha,
                         const std::filesystem::path& to);

}  // namespace taugrid::experiments
