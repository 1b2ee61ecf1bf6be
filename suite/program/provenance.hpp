// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What results.h5 says of a start: how it was launched, and when.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace taugrid::program {

/// Name and value of the variables that launchers and threads are set by, in a fixed order: those of a list,
/// never the whole environment, which may hold secrets.
std::vector<std::pair<std::string, std::string>> launcher_variables();
/// The time of this call, in UTC and to the second: "2026-11-21T10:52:00Z".
std::string utc_now();

}  // namespace taugrid::program
