// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The lines that benchmark harnesses read: docs/figures_of_merit.md.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace taugrid::machine {

/// Prints "FOM NAME = VALUE UNIT" on standard output. The form is stable: a name has no white space, a value
/// is a decimal number of six digits, a unit one word, "1" where there is none.
inline void print_figure_of_merit(std::string_view name, double value, std::string_view unit) {
  fmt::print("FOM {} = {:.6g} {}\n", name, value, unit);
}

}  // namespace taugrid::machine
