// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a committed unit's header says, read without its tensors.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace taugrid::schedule::detail {

/// The text entries of a safetensors file; nothing unless the file is as long as its header says. Throws
/// store::ReadFailure where it cannot be read, which does not make it a wrong one.
std::optional<std::map<std::string, std::string>> read_header(const std::filesystem::path& path);

}  // namespace taugrid::schedule::detail
