// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "suite/experiments/experiment.hpp"

namespace taugrid::experiments {

struct Registered {
  std::string name;  ///< of its file
  int place;
  Maker maker;
  Declare declare;
};

/// All experiments that were built.
std::vector<Registered> registered();

}  // namespace taugrid::experiments
