// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The launcher and the time: an allow-list, never the whole environment.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace taugrid::program {

/// Name and value, in a fixed order.
std::vector<std::pair<std::string, std::string>> launcher_variables();
/// "2026-11-21T10:52:00Z"
std::string utc_now();

}  // namespace taugrid::program
