// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid run --dry-run: configuration → inputs and units, without MPI.
#include <fmt/core.h>

#include <cstdio>

#include "suite/error.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/listing.hpp"

namespace taugrid::program {

int dry_run(const RunOptions& options) {
  try {
    const Listing listing(options.experiment, options.overrides);
    const auto& study = listing.study;
    fmt::print("{}: {} tasks, {} pairs, {} parameters; nothing is computed\n", study.settings.name,
               study.tasks.size(), study.tasks.pairs().size(), study.model.layout().size());
    listing.print_inputs();
    listing.print_work();
    listing.require_inputs();
  } catch (const InputError& error) {
    std::fflush(stdout);
    fmt::print(stderr, "taugrid: error: {}\n", error.what());
    return static_cast<int>(ExitCode::bad_input);
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace taugrid::program
