// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Recipes as mergekit's command reads them (YAML), in the words of ours: mergekit's defaults are said, what
// it computes otherwise is a parameter's choice, and what is not known is refused by name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "suite/config/config.hpp"

namespace taugrid::merging {

/// Whether the name ends with .yml or .yaml.
bool is_mergekit(const std::filesystem::path& path);

/// The recipe as a configuration whose messages name the YAML's lines. Paths are relative to its folder.
/// `notes` gets a line for each thing that is read and does nothing here. Throws InputError.
config::Config mergekit_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                               std::vector<std::string>& notes);

}  // namespace taugrid::merging
