// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/plan/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "suite/error.hpp"
#include "suite/plan/calibrate.hpp"
#include "suite/schedule/detail/deal.hpp"

namespace taugrid::plan {
namespace {

using schedule::WorkUnit;
using study::Study;

constexpr double enough = 1.05;  // more ranks are useless where they end less than 5 % sooner

// A data set of results.h5 beside its numbers: header, attributes and places in scales' lists.
constexpr double data_set_bytes = 1700;
constexpr double log_bytes_a_unit = 140;

bool is_vector(const std::string& name) { return name.starts_with("vector/"); }

/// What a rank holds that has computed these units. Freed pieces stay with the process (main.cpp), large
/// blocks go back and come again beside them: so the most of both, whichever units they are of.
double rank_memory(const Study& study, const std::vector<const WorkUnit*>& units, const Profile& profile) {
  double working = 0, held = 0, samples = 0, largest = 0;
  std::map<std::string, double> kept;
  std::size_t vectors = 0;
  for (const auto* unit : units) {
    working = std::max(working, unit->load.working);
    held = std::max(held, unit->load.held);
    for (const auto& [name, bytes] : unit->load.keeps) {
      auto& most = kept[name];
      if (is_vector(name) && most == 0) ++vectors;
      most = std::max(most, bytes);
    }
  }
  for (const auto& [name, bytes] : kept) {
    if (is_vector(name)) continue;
    samples += bytes;
    largest = std::max(largest, bytes);
  }
  vectors = std::min(vectors, study.vectors.kept());
  // What is in use of a sample is there, whatever the bound.
  samples = std::max(largest, std::min(samples, static_cast<double>(study.bound.samples)));
  return profile.process_bytes + study_bytes(study) + samples + working + held +
         static_cast<double>(vectors) * 4 * static_cast<double>(study.model.layout().size());
}

double most_memory(const Study& study, const std::vector<WorkUnit>& units, const Replay& replay, int groups,
                   const Profile& profile) {
  std::vector<std::vector<const WorkUnit*>> dealt(static_cast<std::size_t>(groups));
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const int group : replay.groups[i]) dealt[static_cast<std::size_t>(group)].push_back(&units[i]);
  }
  double most = 0;
  for (const auto& mine : dealt) most = std::max(most, rank_memory(study, mine, profile));
  return most;
}

/// Task vectors that a rank reads at most, each once.
double vector_bytes(const std::vector<WorkUnit>& units) {
  std::map<std::string, double> kept;
  for (const auto& unit : units) {
    for (const auto& [name, bytes] : unit.load.keeps) {
      if (is_vector(name)) kept[name] = bytes;
    }
  }
  double sum = 0;
  for (const auto& [name, bytes] : kept) sum += bytes;
  return sum;
}

void warn(Forecast& f, const Study& study, const Profile& profile, const Launch& launch) {
  const int wide = launch.ranks_per_unit;
  const auto most = std::max_element(f.rows.begin(), f.rows.end(),
                                     [](const Row& a, const Row& b) { return a.ranks < b.ranks; });
  if (most->ranks > f.useful_ranks) {
    f.warnings.push_back(
        fmt::format("more than {} ranks end less than 5 % sooner: the longest chain of units takes {}",
                    f.useful_ranks, duration(f.longest_chain)));
  }
  for (const auto& row : f.rows) {
    if (row.idle > 0) {
      f.warnings.push_back(
          fmt::format("{} of {} ranks idle: units take {} ranks each", row.idle, row.ranks, wide));
    }
    if (row.waits_for_storage)
      f.warnings.push_back(
          fmt::format("{} ranks wait for the file system, which takes {} for what they store", row.ranks,
                      duration(f.storage_seconds)));
    const int on_host = std::min(row.ranks, launch.ranks_per_host);
    if (row.memory * on_host > profile.memory_bytes) {
      const int fit = static_cast<int>(profile.memory_bytes / row.memory);
      f.warnings.push_back(fmt::format(
          "{} ranks on a host of {} need {} of memory{}", on_host, size(profile.memory_bytes),
          size(row.memory * on_host),
          fit > 0 ? fmt::format("; {} fit: --ranks-per-host {}", fit, fit) : "; not even one fits"));
    }
  }
  if (launch.ranks_per_host * study.settings.threads > profile.cores) {
    f.warnings.push_back(fmt::format("{} ranks with {} thread{} each share a host's {} cores: all slow down",
                                     launch.ranks_per_host, study.settings.threads,
                                     study.settings.threads == 1 ? "" : "s", profile.cores));
  }
}

}  // namespace

std::vector<double> unit_seconds(const std::vector<WorkUnit>& units, const Profile& profile, int ranks) {
  const Host host{profile.cores, profile.threads_per_rank, profile.crowding};
  const double recorded_crowding = host.slowdown(profile.trace.ranks_per_host);
  std::vector<double> all;
  for (const auto& unit : units) {
    const auto& load = unit.load;
    double seconds = profile.unit_seconds + load.bytes_stored / profile.write_bytes_per_second;
    if (const auto record = profile.trace.seconds.find(unit.key); record != profile.trace.seconds.end()) {
      // The seconds of all its groups, one behind the other: replay() shares them out again.
      const auto& trace = profile.trace;
      const int groups = schedule::detail::Deal::groups_for(unit.ranks, trace.ranks_per_unit, trace.groups);
      seconds += groups * record->second / recorded_crowding;
    } else {
      seconds += load.bytes_read / profile.read_bytes_per_second;
      for (const auto& work : load.work) {
        if (work.is_exchange() && profile.together.ranks > 0) {
          const double bytes = 4 * static_cast<double>(work.inputs);
          seconds += work.calls * (work.kind == schedule::sums_over_ranks
                                       ? profile.together.sum_seconds(bytes, ranks)
                                       : profile.together.gather_seconds(bytes, ranks));
          continue;
        }
        const auto& rate = profile.rates.at(work.kind);
        seconds += work.calls * (rate.call_seconds + work.flops / rate.flops_per_second);
      }
    }
    all.push_back(seconds);
  }
  return all;
}

std::vector<const WorkUnit*> untraced(const std::vector<WorkUnit>& units, const Profile& profile) {
  std::vector<const WorkUnit*> all;
  for (const auto& unit : units) {
    if (!profile.trace.seconds.contains(unit.key)) all.push_back(&unit);
  }
  return all;
}

std::vector<std::string> missing_rates(const std::vector<WorkUnit>& units, const Profile& profile) {
  std::set<std::string> missing;
  for (const auto* unit : untraced(units, profile)) {
    for (const auto& work : unit->load.work) {
      const bool known = work.is_exchange() && profile.together.ranks > 0;
      if (!known && !profile.rates.contains(work.kind)) missing.insert(work.kind);
    }
  }
  return {missing.begin(), missing.end()};
}

Forecast forecast(const Study& study, const std::vector<WorkUnit>& units,
                  const ledger::Contents::Size& results, const std::vector<double>& seconds,
                  const Profile& profile, const std::vector<int>& ranks, int ranks_per_host) {
  const int wide = study.settings.ranks_per_unit, threads = study.settings.threads;
  const Host host{profile.cores, threads, profile.crowding};
  Launch launch{wide, wide, ranks_per_host > 0 ? ranks_per_host : std::max(1, profile.cores / threads)};
  Forecast f;
  // config.toml, inputs.toml, started_utc, computed_by, the lock, results.h5, its digest; and a link to each
  // data set.
  f.files = 7 + static_cast<std::int64_t>(study.tasks.with_control());
  for (const auto& unit : units) {
    f.stored += unit.load.bytes_stored + log_bytes_a_unit;
    f.files += unit.load.files_stored;
    f.results += static_cast<double>(unit.key.size()) + 15;
  }
  f.results += results.bytes + data_set_bytes * static_cast<double>(results.data_sets);
  f.stored += f.results;
  const double read = study_bytes(study) + vector_bytes(units);
  f.start_seconds = profile.start_seconds + read / profile.read_bytes_per_second;
  // Each unit's file is looked for at the start, and its header and its tensors are read at the end.
  const auto& together = profile.together;
  const double results_rate = together.results_bytes_per_second > 0 ? together.results_bytes_per_second
                                                                    : profile.write_bytes_per_second;
  f.end_seconds = 4 * static_cast<double>(units.size()) * profile.open_seconds + f.results / results_rate;
  // What the file system takes from all ranks together, however many they are.
  const double of_units = f.stored - f.results;
  f.storage_seconds = together.write_bytes_per_second > 0 ? of_units / together.write_bytes_per_second : 0;

  const auto row_of = [&](int n) {
    launch.ranks = n;
    const auto replayed = replay(units, seconds, launch, host);
    const double slow = host.slowdown(std::min(n, launch.ranks_per_host));
    Row row{n, launch.hosts(), n % wide};
    row.units_seconds = std::max(replayed.seconds, f.storage_seconds);
    row.waits_for_storage = f.storage_seconds > replayed.seconds;
    double start = slow * f.start_seconds;
    if (together.read_bytes_per_second > 0)
      start = std::max(start, profile.start_seconds + n * read / together.read_bytes_per_second);
    row.seconds = start + row.units_seconds + f.end_seconds;
    row.memory = most_memory(study, units, replayed, launch.groups(), profile);
    row.units_a_rank = static_cast<double>(units.size()) / launch.groups();
    return row;
  };
  const double alone = row_of(wide).seconds * wide;
  for (const int n : ranks) {
    if (n < wide)
      throw InputError(fmt::format("--ranks {}: run.ranks_per_unit is {}, so a run needs as many", n, wide));
    f.rows.push_back(row_of(n));
    f.rows.back().efficiency = alone / (f.rows.back().seconds * n);
  }
  f.longest_chain = longest_chain(units, seconds);
  f.useful_ranks = useful_ranks(units, seconds, launch, host, enough);
  warn(f, study, profile, launch);
  return f;
}

std::string duration(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const auto minutes = std::llround(seconds / 60);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string size(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int i = 0;
  while (bytes >= 1024 && i < 5) {
    bytes /= 1024;
    ++i;
  }
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 && i > 0 ? 1 : 0, units[i]);
}

}  // namespace taugrid::plan
