// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a committed unit's file says of itself.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "suite/store/safetensors.hpp"

namespace taugrid::schedule::detail {

/// The text entries of a safetensors file; nothing unless the file is as long as its header says. Throws
/// store::ReadFailure where it cannot be read, which does not make it a wrong one.
std::optional<std::map<std::string, std::string>> read_header(const std::filesystem::path& path);

/// The digest of a unit's names and numbers, as its header has it: it tells damage, not attacks.
std::string digest_of(const store::TensorFile& file);

/// The entry of the header that holds digest_of_header(). Files of early versions have none.
inline constexpr const char* header_digest = "header_digest";

/// The digest of all other entries, and of the tensors' types and shapes.
std::string digest_of_header(const store::TensorFile& file);

/// Why a unit's file is not the one that was committed under this key; empty where it is, or where it is so
/// old that its header does not say.
std::string damage_of(const store::TensorFile& file, std::string_view key);

}  // namespace taugrid::schedule::detail
