// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "suite/config/config.hpp"

namespace taugrid::experiments {

/// The range of task-vector coefficients: far beyond any of use, and far from where weights overflow.
constexpr config::Range coefficients = {-1e3, 1e3};

/// The coefficients of task addition, key `alpha`: 21 from 0 to 1 unless given (papers 1 and 3); with 1, for
/// one-shot addition. Throws InputError.
std::vector<double> addition_grid(config::Section& section);

/// Some of a model's parts, ascending, key `key`: whole numbers from `first` to `last`, unless given
/// `usual`, or all where that is empty. Of a stand-in for a model that is not there, `last` is unknown:
/// higher numbers pass, and are left out. Throws InputError, which says which there `are`.
std::vector<int> numbered(config::Section& section, const std::string& key, const config::Meaning& meaning,
                          int first, int last, bool stand_in, const std::string& are,
                          std::vector<double> usual = {});

}  // namespace taugrid::experiments
