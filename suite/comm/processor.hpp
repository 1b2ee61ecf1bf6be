// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace taugrid::comm {

/// What the kernel says of this host's first processor under a key of its list, such as "model name", without
/// the blanks that fill it up; "unknown" where it says nothing.
std::string of_processor(std::string_view key);

}  // namespace taugrid::comm
