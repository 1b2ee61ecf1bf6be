// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// config.json of a merged model.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "suite/merging/stages.hpp"

namespace taugrid::merging {

/// Changes a copy of the base's configuration to the merged model's: the type in which weights are loaded, of
/// slices how many layers there are, and what a vocabulary, if any, changes. Throws InputError where it does
/// not say the base's number of layers.
void edit_configuration(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
                        const Vocabulary* vocabulary, const std::filesystem::path& config);

}  // namespace taugrid::merging
