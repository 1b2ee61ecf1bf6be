// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/scheduler.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "suite/comm/operation.hpp"
#include "suite/error.hpp"
#include "suite/schedule/detail/dealer.hpp"
#include "suite/schedule/detail/own_file.hpp"
#include "suite/schedule/detail/unit_file.hpp"
#include "suite/schedule/rank_log.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/mapped_file.hpp"

namespace taugrid::schedule {

namespace {

// Ranks that build other lists (from another clock, another file) would compute different things under one
// key.
void require_same_units(const comm::Communicator& world, const std::vector<WorkUnit>& units) {
  std::string mine;
  for (const auto& unit : units) {
    mine += fmt::format("{} {} {} {}\n", unit.key, unit.cost, unit.ranks, fmt::join(unit.needs, " "));
  }
  auto first = mine;
  world.broadcast(first, 0, "list of units");
  if (!world.agree(first == mine, "list of units")) {
    throw std::logic_error("the ranks built different lists of units");
  }
}

// Checkpoints of a finished unit are garbage, no more.
void discard_scratch(const std::filesystem::path& scratch) {
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
}

// They are left by jobs that were killed just after a commit. One look at the folder: of 10,000 units few
// have any.
void discard_leftover_scratch(const RunFolder& folder, const std::vector<WorkUnit>& units,
                              const std::string& flags) {
  std::set<std::filesystem::path> there;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "scratch"))
    there.insert(entry.path());
  for (std::size_t i = 0; i < units.size() && !there.empty(); ++i) {
    const auto scratch = folder.scratch_path(units[i].key);
    if (flags[i] == '1' && there.contains(scratch)) discard_scratch(scratch);
  }
}

// Rank 0 looks at the files, and all ranks learn what it found: one flag a unit, or the same InputError.
std::string find_committed(const comm::Communicator& world, const RunFolder& folder,
                           const std::vector<WorkUnit>& units) {
  std::string flags(units.size(), '0');
  on_first_rank(world, "check of the units", [&] {
    check_units(units, [&](const std::string& key) { return folder.committed(key); });
    std::vector<std::string> keys;
    for (const auto& unit : units) keys.push_back(unit.key);
    const auto committed = folder.committed(keys);
    std::transform(committed.begin(), committed.end(), flags.begin(),
                   [](bool there) { return there ? '1' : '0'; });
    discard_leftover_scratch(folder, units, flags);
  });
  world.broadcast(flags, 0, "committed units");
  return flags;
}

// The ranks share the looking: `problem(unit)` is what is wrong with a unit's file or its work, or empty. A
// unit that has one is missing from now on.
void look_at(const comm::Communicator& world, const RunFolder& folder, const std::vector<WorkUnit>& units,
             const std::vector<std::size_t>& which, std::string& flags,
             const std::function<std::string(const WorkUnit&)>& problem) {
  auto wrong = at::zeros({static_cast<std::int64_t>(which.size())}, at::kLong);
  std::string failure;
  try {
    for (auto i = static_cast<std::size_t>(world.rank()); i < which.size();
         i += static_cast<std::size_t>(world.size())) {
      const auto& unit = units[which[i]];
      const auto text = problem(unit);
      if (text.empty()) continue;
      wrong[static_cast<std::int64_t>(i)] = 1;
      folder.set_aside(unit.key, text);
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  world.patient_barrier("verify finished units");
  failure = first_problem(world, failure, "verify finished units");
  if (!failure.empty()) throw InputError(failure);
  world.all_reduce_sum(wrong, "verify finished units");
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (wrong[static_cast<std::int64_t>(i)].item<std::int64_t>() != 0) flags[which[i]] = '0';
  }
}

// Whether each unit's file is the one that was committed: a disk may have changed a bit of it, a person its
// name.
void verify_files(const comm::Communicator& world, const RunFolder& folder,
                  const std::vector<WorkUnit>& units, std::string& flags) {
  const comm::Doing doing("verify finished units' files");
  std::vector<std::size_t> finished;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (flags[i] == '1') finished.push_back(i);
  if (finished.empty()) return;
  look_at(world, folder, units, finished, flags,
          [&](const WorkUnit& unit) { return folder.damage(unit.key); });
}

// Committed units that a missing one needs, and that were not looked at: their checkpoints will be read.
std::vector<std::size_t> unverified(const std::vector<WorkUnit>& units, const std::string& flags,
                                    const std::set<std::size_t>& seen) {
  std::set<std::string> needed;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (flags[i] == '0') needed.insert(units[i].needs.begin(), units[i].needs.end());
  }
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (flags[i] == '1' && units[i].verify && needed.contains(units[i].key) && !seen.contains(i))
      indices.push_back(i);
  }
  return indices;
}

// A unit whose checkpoint is gone or another is missing from now on; so may be those that it needs, which the
// next round looks at.
void verify_work(const comm::Communicator& world, const RunFolder& folder, const std::vector<WorkUnit>& units,
                 std::string& flags) {
  const comm::Doing doing("verify finished units");
  std::set<std::size_t> seen;
  for (auto round = unverified(units, flags, seen); !round.empty(); round = unverified(units, flags, seen)) {
    look_at(world, folder, units, round, flags, [&](const WorkUnit& unit) {
      const auto problem = unit.verify(folder.read_metadata(unit.key));
      return problem.empty() ? "" : "is finished, but " + problem;
    });
    seen.insert(round.begin(), round.end());
  }
}

/// One group's work, on each of its ranks.
class Worker {
 public:
  Worker(const comm::Runtime& runtime, const comm::Communicator& group, const comm::Communicator& dealing,
         const RunFolder& folder, const detail::Asker& asker, const Options& options)
      : runtime_(runtime),
        options_(options),
        group_(group),
        dealing_(dealing),
        folder_(folder),
        asker_(asker),
        log_(own_log(folder, runtime.world().rank())) {}

  void work(const std::vector<WorkUnit>& units) const {
    while (true) {
      auto order = group_.rank() == 0 ? asker_.ask() : detail::Asker::Order{};
      order.unit = static_cast<int>(group_.patient_broadcast(order.unit, 0, "wait for a unit"));
      if (order.unit < 0) {
        return;
      }
      const auto& unit = units[order.unit];
      const auto groups =
          group_.patient_broadcast(static_cast<std::int64_t>(order.groups.size()), 0, "wait for a unit");
      if (groups == 1) {
        take(unit, order.unit, group_);
      } else {
        take(unit, order.unit, joined(order.groups, groups, order.unit));
      }
    }
  }

 private:
  // RUN/log/rank-00000.log, which no link leads elsewhere.
  static std::filesystem::path own_log(const RunFolder& folder, int rank) {
    auto path = folder.path() / "log" / fmt::format("rank-{:05}.log", rank);
    ::close(detail::open_own(path));
    return path;
  }

  // The ranks of several groups, in order, as one.
  comm::Communicator joined(std::vector<int>& groups, std::int64_t count, int unit) const {
    groups.resize(static_cast<std::size_t>(count));
    auto numbers = at::tensor(groups, at::kInt);
    group_.broadcast(numbers, 0, "groups that work together");
    std::vector<int> ranks;
    for (std::int64_t g = 0; g < count; ++g) {
      for (int r = 0; r < group_.size(); ++r) ranks.push_back(numbers[g].item<int>() * group_.size() + r);
    }
    constexpr int tags = 10'000;
    return dealing_.among(ranks, unit % tags, "ranks of a unit");
  }

  void take(const WorkUnit& unit, int number, const comm::Communicator& group) const {
    const bool finished = compute(unit, number, group);
    if (group.rank() == 0) {
      finished ? asker_.done(number) : asker_.interrupted(number);
    }
  }

  // False where the unit was interrupted. Followers do not wait for the leader's commit.
  bool compute(const WorkUnit& unit, int number, const comm::Communicator& group) const {
    const comm::Doing doing("unit " + unit.key);
    log_.info("start " + unit.key);
    const double start = runtime_.elapsed();
    const double joules_before = joules_so_far(), exchanged_before = group.exchanged_bytes();
    UnitContext context{group, runtime_.stop(), folder_.scratch_path(unit.key), progress_of(number, group)};
    store::create_folders(context.scratch);
    store::TensorFile file;
    try {
      file = unit.compute(context);
      require_unchanged_inputs(group);
    } catch (const Interrupted& stopped) {
      log_.info(fmt::format("interrupted {}: {}", unit.key, stopped.what()));
      return false;
    } catch (const std::exception& error) {
      log_.warn(fmt::format("failed {}: {}", unit.key, error.what()));
      throw;
    }
    const double seconds = runtime_.elapsed() - start;
    const double exchanged = group.exchanged_bytes() - exchanged_before;
    const double joules = joules_of(group, joules_so_far() - joules_before);
    if (group.rank() == 0) {
      file.metadata["key"] = unit.key;
      file.metadata["rank"] = std::to_string(runtime_.world().rank());
      file.metadata["seconds"] = fmt::format("{:.6f}", seconds);
      file.metadata["device"] = runtime_.mine().device;
      if (!std::isnan(joules)) {
        file.metadata["joules"] = fmt::format("{:.6f}", joules);
        file.metadata["energy_source"] = options_.energy_source;
      }
      file.metadata["digest"] = detail::digest_of(file);
      file.metadata.insert(options_.header.begin(), options_.header.end());
      file.metadata[detail::header_digest] = detail::digest_of_header(file);
      folder_.commit(unit.key, file);
      discard_scratch(context.scratch);
    }
    log_.info(fmt::format("end {} {:.3f} s{}", unit.key, seconds,
                          exchanged > 0 ? fmt::format(", {:.0f} B exchanged", exchanged) : ""));
    return true;
  }

  double joules_so_far() const {
    return options_.joules ? options_.joules() : std::numeric_limits<double>::quiet_NaN();
  }

  // Its ranks' together; NaN where one of them counts none.
  double joules_of(const comm::Communicator& group, double mine) const {
    if (!options_.joules || group.size() == 1) return mine;
    auto sum = at::full({1}, mine, at::kDouble);
    group.all_reduce_sum(sum, "joules of a unit");
    return sum.item<double>();
  }

  // No rank's part of the result may rest on an input that changed.
  static void require_unchanged_inputs(const comm::Communicator& group) {
    std::string problem;
    try {
      store::require_unchanged();
    } catch (const InputError& error) {
      problem = error.what();
    }
    if (group.size() > 1) problem = first_problem(group, problem, "inputs as they were");
    if (!problem.empty()) throw InputError(problem);
  }

  std::function<void(double, std::string_view)> progress_of(int number,
                                                            const comm::Communicator& group) const {
    if (group.rank() != 0) {
      return [](double, std::string_view) {};
    }
    return [this, number, last = -1e9](double fraction, std::string_view detail) mutable {
      if (const double now = runtime_.elapsed(); now - last >= 1) {
        last = now;
        asker_.progress(number, fraction, detail);
      }
    };
  }

  const comm::Runtime& runtime_;
  const Options& options_;
  const comm::Communicator& group_;
  const comm::Communicator& dealing_;
  const RunFolder& folder_;
  const detail::Asker& asker_;
  RankLog log_;
};

}  // namespace

RunReport run_units(comm::Runtime& runtime, const RunFolder& folder, std::vector<WorkUnit> units,
                    const Options& options) {
  const comm::Doing doing("run units");
  const double start = runtime.elapsed();
  const auto& world = runtime.world();
  const int width = options.ranks_per_unit;
  if (width < 1 || width > world.size()) {
    throw InputError(fmt::format("ranks_per_unit is {}, but the run has {} ranks", width, world.size()));
  }
  require_same_units(world, units);
  auto flags = find_committed(world, folder, units);
  verify_files(world, folder, units, flags);
  verify_work(world, folder, units, flags);
  std::vector<bool> done(units.size());
  std::transform(flags.begin(), flags.end(), done.begin(), [](char flag) { return flag == '1'; });
  if (options.time_limit) {
    runtime.set_time_limit(std::chrono::duration<double>(*options.time_limit));
  }
  const int groups = world.size() / width;
  const int idle = world.size() % width;
  if (idle > 0 && world.rank() == 0) {
    fmt::print(stderr, "# warning: {} of {} ranks idle: units take {} ranks each\n", idle, world.size(),
               width);
  }

  const auto group = world.split(world.rank() / width, world.rank(), "groups of ranks");
  const auto dealing = world.split(0, world.rank(), "dealing");
  RunReport report;
  report.skipped = static_cast<int>(std::count(done.begin(), done.end(), true));
  detail::Deal deal(units, done, width, groups);
  {
    std::unique_ptr<Progress> progress;
    std::unique_ptr<detail::Dealer> dealer;
    if (world.rank() == 0) {
      double cost = 0;
      double cost_before = 0;
      for (std::size_t i = 0; i < units.size(); ++i) {
        cost += units[i].cost;
        cost_before += done[i] ? units[i].cost : 0;
      }
      if (options.show_progress) {
        progress = std::make_unique<Progress>(stderr, static_cast<int>(units.size()), cost, report.skipped,
                                              cost_before);
      }
      dealer = std::make_unique<detail::Dealer>(runtime, dealing, units, deal, progress.get(), groups, width);
    }
    if (world.rank() < groups * width) {
      const detail::Asker asker(dealing, groups);
      Worker(runtime, group, dealing, folder, asker, options).work(units);
    }
    if (dealer) {
      dealer->join();
    }
  }
  const auto left = static_cast<int>(world.patient_broadcast(deal.left(), 0, "wait for the other groups"));
  world.patient_barrier("wait for the other groups");
  report.computed = static_cast<int>(units.size()) - report.skipped - left;
  report.seconds = runtime.elapsed() - start;
  if (left > 0) {
    auto reason = runtime.stop().reason();
    world.broadcast(reason, 0, "reason of the stop");
    throw Interrupted(fmt::format("{} of {} units done when {} came; run again to continue",
                                  units.size() - left, units.size(), reason));
  }
  return report;
}

}  // namespace taugrid::schedule
