// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// An experiment looked at without computing it: its inputs and its work.
#pragma once

#include <string>
#include <vector>

#include "suite/experiments/experiment.hpp"

namespace taugrid::program {

/// An experiment whose inputs may be missing: stand-ins take their places, see Study.
struct Listing {
  /// Throws InputError where the experiment file is wrong.
  Listing(const std::filesystem::path& experiment, const std::vector<std::string>& overrides,
          at::Device device = at::kCPU);

  config::Config config;
  study::InputFiles files{study::InputFiles::Mode::dry_run};
  study::Study study;
  experiments::Experiments experiments;
  schedule::RunFolder folder;
  std::vector<schedule::WorkUnit> units;

  void print_inputs() const;
  /// A line for each kind of unit; with `seconds`, one a unit, also how long these take.
  void print_work(const std::vector<double>& seconds = {}) const;
  /// Throws InputError where inputs are missing: at the end, when all is printed.
  void require_inputs() const;
};

}  // namespace taugrid::program
