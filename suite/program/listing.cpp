// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/program/listing.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "suite/error.hpp"

namespace taugrid::program {

Listing::Listing(const std::filesystem::path& experiment, const std::vector<std::string>& overrides,
                 at::Device device)
    : config(config::Config::load(experiment, overrides)),
      study(config, files, device),
      experiments(experiments::make_experiments(config, study)),
      folder(schedule::RunFolder::none()) {
  config.finish();
  units = experiments::units_of(experiments, study, folder);
}

void Listing::print_inputs() const {
  fmt::print("inputs\n");
  for (const auto& input : files.files()) {
    fmt::print("  {:<14} {}\n", input.name, input.path.string());
    if (!input.missing) {
      fmt::print("  {:<14}   {}\n", "", input.state);
    } else {
      fmt::print("  {:<14}   MISSING or wrong: {}\n", "", input.state);
    }
  }
}

void Listing::print_work(const std::vector<double>& seconds) const {
  struct Row {
    std::size_t units = 0;
    double flops = 0, dearest = 0, seconds = 0, longest = 0;
  };
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  double all = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto kind = schedule::kind_of(units[i].key);
    if (rows.count(kind) == 0) order.push_back(kind);
    auto& row = rows[kind];
    ++row.units;
    row.flops += units[i].load.flops;
    row.dearest = std::max(row.dearest, units[i].load.flops);
    all += units[i].load.flops;
    if (seconds.empty()) continue;
    row.seconds += seconds[i];
    row.longest = std::max(row.longest, seconds[i]);
  }
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return seconds.empty() ? rows[a].flops > rows[b].flops : rows[a].seconds > rows[b].seconds;
  });
  fmt::print("work: {} units, about {:.3g} Tflop in all\n", units.size(), all / 1e12);
  fmt::print("  {:<32} {:>6} {:>12} {:>8} {:>14}", "kind", "units", "Tflop", "share", "most Tflop");
  fmt::print("{}", seconds.empty() ? "\n" : fmt::format(" {:>10} {:>10}\n", "seconds", "longest s"));
  for (const auto& kind : order) {
    const auto& row = rows[kind];
    fmt::print("  {:<32} {:>6} {:>12.3g} {:>6.1f} % {:>14.3g}", kind, row.units, row.flops / 1e12,
               100 * row.flops / all, row.dearest / 1e12);
    fmt::print("{}",
               seconds.empty() ? "\n" : fmt::format(" {:>10.1f} {:>10.3f}\n", row.seconds, row.longest));
  }
}

void Listing::require_inputs() const {
  const auto missing = std::count_if(files.files().begin(), files.files().end(),
                                     [](const auto& file) { return file.missing; });
  if (missing > 0) {
    throw InputError(
        fmt::format("{} of {} inputs are missing or wrong, see above; packed tasks are made by "
                    "python jobs/prepare --help",
                    missing, files.files().size()));
  }
}

}  // namespace taugrid::program
