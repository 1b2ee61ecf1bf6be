// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Versions of this program and of what it rests on, as compiled and as loaded, and the build.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace taugrid::machine {

/// Name and value, in a fixed order.
std::vector<std::pair<std::string, std::string>> versions();

}  // namespace taugrid::machine
