// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid plan: configuration and profile → how long a run takes, and what it needs, on N ranks.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "suite/comm/failure.hpp"
#include "suite/comm/runtime.hpp"
#include "suite/error.hpp"
#include "suite/plan/calibrate.hpp"
#include "suite/plan/forecast.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/listing.hpp"
#include "suite/program/output_file.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::program {
namespace {

/// A profile of this very experiment, or the error that says why not.
void require_fitting(const plan::Profile& profile, const Listing& listing, const std::string& where) {
  const auto& study = listing.study;
  if (profile.threads_per_rank != study.settings.threads) {
    throw InputError(fmt::format("{}: threads_per_rank is {}; this experiment has run.threads_per_rank = {}",
                                 where, profile.threads_per_rank, study.settings.threads));
  }
  if (profile.model_parameters != study.model.layout().size()) {
    throw InputError(fmt::format("{}: was measured with a model of {} parameters; this experiment's has {}",
                                 where, profile.model_parameters, study.model.layout().size()));
  }
  if (const auto missing = plan::missing_rates(listing.units, profile); !missing.empty()) {
    throw InputError(
        fmt::format("{}: rates has no {}, which this experiment needs; make the profile from this experiment "
                    "with --save-profile",
                    where, fmt::join(missing, ", ")));
  }
}

/// Recorded, or measured now; a run's results.h5 saves measuring what it has done.
plan::Profile find_profile(comm::Runtime& runtime, const Listing& listing, const PlanOptions& options,
                           double start_seconds) {
  const auto where = options.profile.string();
  const auto config = listing.config.resolved();
  if (!options.profile.empty() && options.profile.extension() != ".h5") {
    auto profile = plan::read_profile(options.profile);
    if (!options.bench.empty()) profile.together = plan::read_bench(options.bench, profile.processor);
    plan::require_same_experiment(profile.trace, config, where);
    require_fitting(profile, listing, where);
    fmt::print("machine: {}, {} cores, {}; {}\n", profile.processor, profile.cores,
               plan::size(profile.memory_bytes), where);
    return profile;
  }
  plan::Profile traced;
  if (!options.profile.empty()) {
    traced.trace = plan::read_trace(options.profile);
    plan::require_same_experiment(traced.trace, config, where);
    if (traced.trace.config.empty()) traced.trace.config = config;
  }
  const auto began = runtime.elapsed();
  auto profile = plan::calibrate(runtime, listing.study, plan::untraced(listing.units, traced));
  if (!options.bench.empty()) profile.together = plan::read_bench(options.bench, profile.processor);
  profile.trace = traced.trace;
  profile.start_seconds = start_seconds;
  fmt::print("machine: {}, {} cores, {}; measured in {} with {} thread{} a rank{}\n", profile.processor,
             profile.cores, plan::size(profile.memory_bytes), plan::duration(runtime.elapsed() - began),
             profile.threads_per_rank, profile.threads_per_rank == 1 ? "" : "s",
             where.empty() ? "" : fmt::format("; {} units as in {}", traced.trace.seconds.size(), where));
  if (const auto there = sysconf(_SC_NPROCESSORS_ONLN); runtime.device().is_cpu() && profile.cores < there)
    fmt::print(
        "warning: this process may use {} of the host's {} cores, and hosts are planned with as many: where "
        "that is wrong, measure in a job that has them all (--exclusive, --cpus-per-task={})\n",
        profile.cores, there, there);
  return profile;
}

void print_forecast(const plan::Forecast& f) {
  fmt::print("{:>7} {:>6} {:>12} {:>10} {:>11} {:>14} {:>13}\n", "ranks", "hosts", "time", "hours",
             "efficiency", "memory a rank", "units a rank");
  for (const auto& row : f.rows) {
    fmt::print("{:>7} {:>6} {:>12} {:>10.3f} {:>9.0f} % {:>14} {:>13.1f}\n", row.ranks, row.hosts,
               plan::duration(row.seconds), row.seconds / 3600, 100 * row.efficiency, plan::size(row.memory),
               row.units_a_rank);
  }
  fmt::print("storage: {} in {} files, {} of it results.h5; and a log a rank\n", plan::size(f.stored),
             f.files, plan::size(f.results));
  for (const auto& warning : f.warnings) fmt::print("warning: {}\n", warning);
}

void write_json(const std::filesystem::path& path, const Listing& listing, const std::vector<double>& seconds,
                const plan::Profile& profile, const plan::Forecast& f) {
  nlohmann::ordered_json json;
  json["experiment"] = listing.study.settings.name;
  json["host"] = {{"cores", profile.cores},
                  {"threads_per_rank", profile.threads_per_rank},
                  {"crowding", profile.crowding},
                  {"memory_bytes", profile.memory_bytes}};
  json["ranks_per_unit"] = listing.study.settings.ranks_per_unit;
  json["start_seconds"] = f.start_seconds;
  json["end_seconds"] = f.end_seconds;
  json["longest_chain_seconds"] = f.longest_chain;
  json["useful_ranks"] = f.useful_ranks;
  json["stored_bytes"] = f.stored;
  json["results_bytes"] = f.results;
  json["files"] = f.files;
  json["warnings"] = f.warnings;
  for (const auto& row : f.rows) {
    json["plan"].push_back({{"ranks", row.ranks},
                            {"hosts", row.hosts},
                            {"idle", row.idle},
                            {"seconds", row.seconds},
                            {"units_seconds", row.units_seconds},
                            {"efficiency", row.efficiency},
                            {"memory_bytes", row.memory}});
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const auto& unit = listing.units[i];
    json["units"].push_back({{"key", unit.key},
                             {"cost", unit.cost},
                             {"flops", unit.load.flops},
                             {"bytes_exchanged", unit.load.bytes_exchanged()},
                             {"needs", unit.needs},
                             {"seconds", seconds[i]}});
  }
  store::write_atomically(path, json.dump(1) + "\n");
}

void describe(comm::Runtime& runtime, const PlanOptions& options) {
  if (runtime.world().size() > 1)
    throw InputError(
        "taugrid plan takes one process: start it without mpirun, and name the ranks with --ranks");
  require_apart("--json", options.json, {options.experiment, options.profile, options.bench});
  const bool of_a_run =
      options.profile.extension() == ".h5";  // a profile may be saved again with what --bench adds
  require_apart("--save-profile", options.save_profile,
                {options.experiment, options.bench, of_a_run ? options.profile : std::filesystem::path()});
  const double age = plan::process_seconds();
  const Listing listing(options.experiment, options.overrides, runtime.device());
  const auto& study = listing.study;
  runtime.set_threads(study.settings.threads);
  runtime.print_warnings();
  fmt::print("{}: {} tasks, {} pairs, {} parameters\n", study.settings.name, study.tasks.size(),
             study.tasks.pairs().size(), study.model.layout().size());
  listing.print_inputs();
  std::fflush(stdout);
  const auto profile = find_profile(runtime, listing, options, age);
  if (!options.save_profile.empty()) plan::write_profile(options.save_profile, profile);

  const auto seconds = plan::unit_seconds(listing.units, profile, study.settings.ranks_per_unit);
  listing.print_work(seconds);
  const auto results = experiments::contents_of(listing.experiments, study).size();
  const auto forecast =
      plan::forecast(study, listing.units, results, seconds, profile, options.ranks, options.ranks_per_host);
  print_forecast(forecast);
  if (!options.json.empty()) write_json(options.json, listing, seconds, profile, forecast);
  std::fflush(stdout);
  listing.require_inputs();
}

}  // namespace

int plan(int& argc, char**& argv, const PlanOptions& options) {
  comm::Runtime runtime(argc, argv, {.device = options.device});
  return comm::run_guarded(runtime, [&] { describe(runtime, options); });
}

}  // namespace taugrid::program
