// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace taugrid::store {

/// The object in an input file of at most 64 MiB. A parsed value takes many times its text's memory, so that
/// its depth and the number of its values are bounded while it is read. Throws InputError, which says what
/// was `expected`.
nlohmann::json input_json(const std::filesystem::path& path, const std::string& expected);

}  // namespace taugrid::store
