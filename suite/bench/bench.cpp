// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/bench/bench.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <limits>
#include <regex>
#include <string_view>
#include <thread>

#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/bench/report.hpp"
#include "suite/comm/failure.hpp"
#include "suite/error.hpp"
#include "suite/machine/energy.hpp"
#include "suite/machine/memory_traffic.hpp"

namespace taugrid::bench {
namespace {

constexpr double least_seconds = 0.3;  // of timed runs a case
constexpr int most_repetitions = 100;
constexpr std::size_t most_counted = 100'000;  // runs that a counter is waited for

double cpu() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Counts what all ranks take. Repeats a case, untimed, until the slowest counter went on ten times; where
/// that takes more than most_counted runs, or a stop is wanted, the case has no joules.
class Energy {
 public:
  explicit Energy(const comm::Runtime& runtime)
      : runtime_(runtime),
        meter_(machine::energy_places(runtime)),
        counting_(machine::agree_on_counters(runtime, meter_)) {
    const auto intervals =
        runtime.world().all_gather(at::full({1}, meter_.interval(), at::kDouble), "counters of joules");
    least_ = 10 * intervals.max().item<double>();
  }
  const machine::Counting& counting() const { return counting_; }
  void begin() { begun_ = meter_.joules(); }
  /// Joules of one of `runs` runs that took `seconds` together since begin(), on all ranks alike.
  double of_a_run(const std::function<double()>& run, std::size_t runs, double seconds) const {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    if (counting_.source.empty()) return none;
    const auto& world = runtime_.world();
    for (; seconds < least_; ++runs) {  // `seconds` are the same on all ranks
      if (runs >= most_counted || runtime_.stop().requested(world)) return none;
      seconds += run();
    }
    return machine::joules_of_all(world, meter_.joules() - begun_) / static_cast<double>(runs);
  }

 private:
  const comm::Runtime& runtime_;
  machine::EnergyMeter meter_;
  machine::Counting counting_;
  double least_ = 0, begun_ = 0;
};

Row measure(const Case& test, const Options& options, const Fixture& fixture, Energy& energy,
            const machine::MemoryTraffic* traffic) {
  Row row{};
  row.name = test.name;
  try {
    const auto work = test.prepare();
    row.flops = work.flops;
    row.bytes = work.bytes;
    row.items = work.items;
    row.unit = work.unit;
    row.tolerance = work.tolerance;
    row.bf16 = work.bf16;
    row.bound = work.bound;
    row.transfer = work.transfer;
    row.warm_up = fixture.timed(work.run);
    energy.begin();
    const double moved_before = traffic == nullptr ? 0 : traffic->bytes();
    double total = 0;
    while (static_cast<int>(row.seconds.size()) < options.repetitions ||
           (total < least_seconds && static_cast<int>(row.seconds.size()) < most_repetitions)) {
      const double from = cpu();
      row.seconds.push_back(fixture.timed(work.run));
      row.cpu_seconds.push_back(cpu() - from);
      total += row.seconds.back();
    }
    if (traffic != nullptr)
      row.memory_bytes = (traffic->bytes() - moved_before) / static_cast<double>(row.seconds.size());
    row.joules = energy.of_a_run([&] { return fixture.timed(work.run); }, row.seconds.size(), total);
    row.error = work.error();
    if (work.results && !options.dump.empty()) {
      auto name = test.name;
      std::replace(name.begin(), name.end(), '/', '-');
      store::write_safetensors(options.dump / "results" / (name + ".safetensors"), work.results());
    }
  } catch (const std::exception& failure) {
    if (fixture.world().size() > 1) throw;  // the others wait for this rank
    row.failure = failure.what();
  }
  return row;
}

int threads_wanted() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  const long threads = text == nullptr ? 1 : std::strtol(text, nullptr, 10);
  const long most = 4 * std::max(1L, static_cast<long>(std::thread::hardware_concurrency()));  // as of a run
  return static_cast<int>(std::clamp(threads, 1L, most));
}

}  // namespace

std::vector<Case> chosen(std::vector<Case> all, const std::string& filter, const std::string& size,
                         int ranks) {
  constexpr std::array<std::string_view, 4> of_small = {"combine", "gram", "forward", "step/standard"};
  const auto fits = [&](const Case& test) {
    if (size == "large") return true;
    return size == "small" ? std::find(of_small.begin(), of_small.end(), test.name) != of_small.end()
                           : !test.when_named;
  };
  if (ranks > 1) std::erase_if(all, [](const Case& test) { return !test.shared; });
  std::vector<Case> some;
  try {
    const std::regex pattern(filter);
    for (const auto& test : all) {
      const bool named = filter == test.name || filter == "^" + test.name + "$";
      if (std::regex_search(test.name, pattern) && (fits(test) || named)) some.push_back(test);
    }
  } catch (const std::regex_error&) {
    throw InputError("--filter: '" + filter + "' is no regular expression");
  }
  if (some.empty())
    throw InputError("--filter: no case of size " + size + std::string(ranks > 1 ? " that ranks share" : "") +
                     " matches '" + filter + "'; taugrid bench --list shows them");
  return some;
}

std::vector<Case> all_cases(const Fixture& fixture) {
  std::vector<Case> all;
  for (const auto& some :
       {weight_cases(fixture), model_cases(fixture), hessian_cases(fixture), net_cases(fixture),
        text_cases(fixture), experiment_cases(fixture), linearity_cases(fixture), merging_cases(fixture),
        unit_cases(fixture), out_of_core_cases(fixture), stage_cases(fixture), network_cases(fixture),
        storage_cases(fixture), device_cases(fixture)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

int run(int& argc, char**& argv, const Options& options) {
  comm::Runtime runtime(argc, argv, {.threads = threads_wanted(), .device = options.device});
  bool valid = true, stopped = false;
  const int code = comm::run_guarded(runtime, [&] {
    const auto& world = runtime.world();
    if (world.size() > 1 && !options.dump.empty())
      throw InputError("taugrid bench: --dump is for one process: start it without mpirun");
    runtime.set_threads(threads_wanted());
    runtime.print_warnings();
    const bool keep = !options.dump.empty();
    auto name =
        (keep ? std::filesystem::absolute(options.dump)
              : std::filesystem::temp_directory_path() / ("taugrid-bench-" + std::to_string(getpid())))
            .string();
    world.broadcast(name, 0, "folder of the bench");
    const std::filesystem::path folder = name;
    // Hosts may have folders of this name of their own: the first rank of each removes it.
    const Fixture fixture(runtime, folder, keep || runtime.first_on_host() != world.rank());
    auto all = all_cases(fixture);
    const bool on_device = !runtime.device().is_cpu();
    if (on_device) std::erase_if(all, [](const Case& test) { return test.on_host; });
    const auto cases = chosen(all, options.filter, options.size, world.size());
    const auto say = [&](const auto& print) {
      if (world.rank() == 0) print();
    };
    if (options.list) {
      for (const auto& test : cases) say([&] { fmt::print("{}\n", test.name); });
      return;
    }
    if (keep) {
      std::filesystem::create_directories(folder / "results");
      fixture.write_inputs();
      for (const auto* regime : {"standard", "linear"}) fixture.write_task_vectors(regime, regime);
    }
    auto context = machine::describe_machine();
    context.emplace_back("device", runtime.mine().device);
    auto peaks = machine::measure_peaks(runtime.device());
    context.emplace_back("ranks", std::to_string(world.size()));
    context.emplace_back("size", options.size);
    Energy energy(runtime);
    context.emplace_back("joules", energy.counting().line);
    std::optional<machine::MemoryTraffic> traffic;
    if (world.size() == 1 && !on_device) traffic.emplace();
    context.emplace_back("memory_traffic",
                         traffic ? traffic->line() : "none: counted for one rank on a host's processors alone");
    say([&] {
      fmt::print("# {}\n", on_device ? "on a device: the host's cases of merges, units and files are left out"
                                     : "no GPU here: the cases gpu/… are left out");
      print_header(context, peaks);
    });
    std::vector<Row> rows;
    for (const auto& test : cases) {
      rows.push_back(measure(test, options, fixture, energy, traffic ? &*traffic : nullptr));
      if (world.size() == 1 && rows.back().bound.name.empty() &&
          rows.back().share(peaks) > 1) {  // the machine was busy when its peaks were measured
        const auto again = machine::measure_peaks(runtime.device());
        peaks = {std::max(peaks.flops, again.flops), std::max(peaks.bytes, again.bytes),
                 std::max(peaks.bf16_flops, again.bf16_flops)};
        print_peaks(peaks);
      }
      stopped = runtime.stop().requested(world);
      if (stopped) {  // this case may have been cut short
        rows.pop_back();
        break;
      }
      say([&] { print_row(rows.back(), peaks); });
    }
    say([&] {
      if (stopped)
        fmt::print("# stopped by {}: {} of {} cases measured\n", runtime.stop().reason(), rows.size(),
                   cases.size());
      if (options.roofline) print_roofline(peaks, rows);
      print_figures(peaks, rows);
      valid = print_verdict(rows);
    });
    world.barrier("end of the bench");  // the first removes the folder
    if (!options.json.empty())
      say([&] { write_json(options.json, context, energy.counting().source, peaks, rows); });
  });
  if (code != 0) return code;
  return static_cast<int>(!valid ? ExitCode::failed : stopped ? ExitCode::resumable : ExitCode::done);
}

}  // namespace taugrid::bench
