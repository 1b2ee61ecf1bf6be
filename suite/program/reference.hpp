// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the commands that print references share.
#pragma once

#include <cstddef>
#include <string>

namespace taugrid::program {

/// Lines of at most `width` bytes, each begun with `indent`.
std::string wrapped(const std::string& text, const std::string& indent, std::size_t width = 100);

/// The text in a cell of a table in Markdown.
std::string cell(const std::string& text);

}  // namespace taugrid::program
