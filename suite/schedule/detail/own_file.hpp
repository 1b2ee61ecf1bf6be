// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace taugrid::schedule::detail {

/// Opens a file of the run folder's own for writing, and makes it where there is none. What has its name and
/// leads elsewhere, or is no file, would be somebody's loss: throws InputError. Returns the descriptor.
int open_own(const std::filesystem::path& path);

}  // namespace taugrid::schedule::detail
