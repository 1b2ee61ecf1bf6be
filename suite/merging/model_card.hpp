// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// README.md of a merged model, as the Hugging Face hub and mergekit have it: front matter in YAML, what was
// merged and how, of which files, and the recipe. https://huggingface.co/docs/hub/model-cards
#pragma once

#include <string>
#include <string_view>

#include "suite/merging/recipe.hpp"

namespace taugrid::merging {

/// `method`: what the method does, `made_by`: which program made it, `record`: merge.toml. What the inputs'
/// own files say of them is read, and their weights are not; what cannot be read there says nothing.
std::string model_card(const Recipe& recipe, std::string_view method, const std::string& made_by,
                       const std::string& record);

}  // namespace taugrid::merging
