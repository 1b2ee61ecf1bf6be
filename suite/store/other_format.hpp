// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace taugrid::store {

/// What downloads and other programs leave in the place of a safetensors or JSON file, by its first 64 bytes:
/// "a pointer of Git LFS …", "a page of HTML …", "a zip archive …"; empty where it is none of these. Ask for
/// a file that is wrong alone: a right one may begin as they do.
std::string other_format(std::string_view begin);

}  // namespace taugrid::store
