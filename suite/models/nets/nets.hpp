// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The architectures that the suite brings, see registry.hpp.
#pragma once

#include "suite/models/registry.hpp"

namespace taugrid::models {

/// CLIP's image tower (Hugging Face: CLIPVisionModelWithProjection), from its own config.json or a whole CLIP's.
std::unique_ptr<Encoder> make_clip_vision(const nlohmann::json& config, const std::string& where);

}  // namespace taugrid::models
