// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "suite/ledger/outputs.hpp"

namespace taugrid::program {

/// What the program itself writes into results.h5.
std::vector<ledger::OutputGroup> run_outputs();

}  // namespace taugrid::program
