// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid run --dry-run: configuration → inputs and units, without MPI.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/program/commands.hpp"

namespace taugrid::program {
namespace {

/// "finetune/standard" of "finetune/standard/mnist".
std::string kind_of(const std::string& key) {
  const auto end = key.find('/', key.find('/') + 1);
  return key.substr(0, end);
}

void list_inputs(const std::vector<experiments::Input>& inputs) {
  fmt::print("inputs\n");
  for (const auto& input : inputs) {
    fmt::print("  {:<14} {}\n", input.name, input.path.string());
    if (!input.missing) {
      fmt::print("  {:<14}   {}\n", "", input.state);
    } else {
      fmt::print("  {:<14}   MISSING or wrong: {}\n", "", input.state);
    }
  }
}

void list_work(const std::vector<schedule::WorkUnit>& units) {
  struct Row {
    std::size_t units = 0;
    double cost = 0, dearest = 0;
  };
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  double all = 0;
  for (const auto& unit : units) {
    const auto kind = kind_of(unit.key);
    if (rows.count(kind) == 0) order.push_back(kind);
    auto& row = rows[kind];
    ++row.units;
    row.cost += unit.cost;
    row.dearest = std::max(row.dearest, unit.cost);
    all += unit.cost;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return rows[a].cost > rows[b].cost; });
  fmt::print("work: {} units, about {:.3g} Tflop in all\n", units.size(), all / 1e12);
  fmt::print("  {:<32} {:>6} {:>12} {:>8} {:>14}\n", "kind", "units", "Tflop", "share", "Tflop a unit");
  for (const auto& kind : order) {
    const auto& row = rows[kind];
    fmt::print("  {:<32} {:>6} {:>12.3g} {:>6.1f} % {:>14.3g}\n", kind, row.units, row.cost / 1e12,
               100 * row.cost / all, row.dearest / 1e12);
  }
}

void describe(const RunOptions& options) {
  auto config = config::Config::load(options.experiment, options.overrides);
  std::vector<experiments::Input> inputs;
  experiments::Study study(config, &inputs);
  const auto experiments = experiments::make_experiments(config, study);
  config.finish();

  fmt::print("{}: {} tasks, {} pairs, {} parameters; nothing is computed\n", study.settings().name,
             study.tasks(), study.pairs().size(), study.layout().size());
  list_inputs(inputs);
  const auto folder = schedule::RunFolder::none();
  std::vector<schedule::WorkUnit> units;
  for (const auto& experiment : experiments) experiment->add_units(units, folder);
  list_work(units);

  const auto missing =
      std::count_if(inputs.begin(), inputs.end(), [](const auto& input) { return input.missing; });
  if (missing > 0) {
    throw InputError(
        fmt::format("{} of {} inputs are missing or wrong, see above; packed tasks are made by "
                    "python jobs/prepare --help",
                    missing, inputs.size()));
  }
}

}  // namespace

int dry_run(const RunOptions& options) {
  try {
    describe(options);
  } catch (const InputError& error) {
    std::fflush(stdout);
    fmt::print(stderr, "taugrid: error: {}\n", error.what());
    return static_cast<int>(ExitCode::bad_input);
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace taugrid::program
