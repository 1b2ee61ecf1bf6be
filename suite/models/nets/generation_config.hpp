// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What Hugging Face keeps in generation_config.json, beside the config.json of a model that generates.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "suite/models/registry.hpp"

namespace taugrid::models {

/// The folder's generation_config.json, where it has one.
Files generation_config(const std::filesystem::path& folder);

/// The tokens that end a text that is generated: a number or a list, as generation_config.json (`beside`)
/// names them, or where it names none, config.json.
std::vector<std::int64_t> ends_of(const nlohmann::json& config, const Keys& keys, const Files& beside);

}  // namespace taugrid::models
