// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace taugrid::store {

/// A text from a file as one line of a message can show it: in quotation marks, its first 100 bytes,
/// everything but ASCII escaped.
std::string quoted(const std::string& text);

}  // namespace taugrid::store
