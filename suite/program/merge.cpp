// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid merge: recipe → folder, and taugrid extract, which is one of a model and its base. A launcher's
// ranks share it out; without one, MPI is not started. What it took is printed.
#include "suite/merging/merge.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "suite/comm/failure.hpp"
#include "suite/comm/launcher.hpp"
#include "suite/comm/runtime.hpp"
#include "suite/comm/stop.hpp"
#include "suite/error.hpp"
#include "suite/plan/profile.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/short_name.hpp"
#include "suite/store/input_file.hpp"
#include "taugrid_version.hpp"

namespace taugrid::program {
namespace {

/// A line of /proc/self/status, in MiB; 0 where the system has none.
double mebibytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    double kibibytes = 0;
    if (name == field + ":" && status >> kibibytes) return kibibytes / 1024;
    std::string rest;
    std::getline(status, rest);
  }
  return 0;
}

comm::StopRequest stop;

extern "C" void stop_merge(int signal) { stop.request(signal); }

/// From now on these signals are looked for between two stretches; a second one ends the process at once.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = stop_merge;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

/// The error of all matrices together, and the largest.
void print_adapter(const merging::Report& report) {
  double all = 0, lost = 0;
  const auto* worst = &report.matrices.front();
  auto least = worst->rank, most = worst->rank;
  for (const auto& matrix : report.matrices) {
    all += matrix.norm * matrix.norm;
    lost += matrix.norm * matrix.norm * matrix.error * matrix.error;
    if (matrix.error > worst->error) worst = &matrix;
    least = std::min(least, matrix.rank);
    most = std::max(most, matrix.rank);
  }
  fmt::print(
      "an adapter: {} matrices of rank {}, relative error {:.4g}, at most {:.4g} ({}); {} tensors whole\n",
      report.matrices.size(), least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most),
      std::sqrt(lost / all), worst->error, short_name(worst->name, 60), report.whole);
}

/// The largest of all ranks' numbers.
double most(const comm::Communicator* ranks, double mine) {
  if (ranks == nullptr) return mine;
  return ranks->all_gather(at::full({1}, mine, at::kFloat), "figures of the merge").max().item<double>();
}

std::string size(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6) : fmt::format("{:.1f} GB", bytes / 1e9);
}

/// What none of the ranks has more of.
merging::Load busiest_of(const std::vector<merging::Load>& loads) {
  merging::Load most_of_all;
  for (const auto& load : loads) {
    most_of_all.read = std::max(most_of_all.read, load.read);
    most_of_all.written = std::max(most_of_all.written, load.written);
    most_of_all.memory = std::max(most_of_all.memory, load.memory);
    most_of_all.flops = std::max(most_of_all.flops, load.flops);
  }
  return most_of_all;
}

/// How far it is, every ten seconds, with what is left by what the time was like so far.
class Progress {
 public:
  explicit Progress(bool speaks) : speaks_(speaks) {}
  void see(double share) {
    const auto now = std::chrono::steady_clock::now();
    if (!speaks_ || now - said_ < std::chrono::seconds(10)) return;
    said_ = now;
    const double seconds = std::chrono::duration<double>(now - began_).count();
    fmt::print(stderr, "# {:.0f} s: {:.0f} %, about {:.0f} s left\n", seconds, 100 * share,
               share > 0 ? seconds * (1 - share) / share : 0);
  }

 private:
  bool speaks_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now(), said_ = began_;
};

/// `stop_wanted`: whoever wants it to end sets it. `ranks`: that share it out; null: this process alone.
void carry_out(const std::function<merging::Recipe()>& read, const char* command,
               const comm::StopRequest& stop_wanted, const comm::Communicator* ranks,
               const std::filesystem::path& bench = {}) {
  std::optional<plan::Together> storage;
  if (!bench.empty()) storage = plan::read_storage(bench);
  const auto began = std::chrono::steady_clock::now();
  const auto idle = mebibytes("RssAnon");
  const auto recipe = read();
  const bool speaks = ranks == nullptr || ranks->rank() == 0;
  double mapped = 0;
  Progress progress(speaks);
  merging::Making making;
  making.made_by = fmt::format("made by taugrid {} ({}): taugrid {}", version, git_revision, command);
  if (ranks != nullptr) making.team = merging::Team(*ranks, merging::Team::Wanted::where_made);
  making.go_on = [&] {
    if (stop_wanted.requested()) throw Interrupted("merge: by " + stop_wanted.reason());
  };
  making.look = [&] { mapped = mebibytes("RssFile"); };
  making.see = [&](double share) { progress.see(share); };
  if (ranks != nullptr)
    making.plan = [&](const std::vector<merging::Load>& loads) {
      const auto busiest = busiest_of(loads);
      fmt::print("{} ranks: each reads {} and writes {} at most\n", ranks->size(), size(busiest.read),
                 size(busiest.written));
      std::fflush(stdout);
    };
  const auto report = merging::merge(recipe, making);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const auto anonymous = most(ranks, mebibytes("RssAnon")), pages = most(ranks, mapped);
  if (!speaks) return;
  fmt::print(
      "{}: {} of {} models of {} numbers\n"
      "density {:.4f} of the merged vector, {:.2f} passes over the vectors, {:.1f} s, {:.2f} GB/s of input\n"
      "anonymous memory {:.0f} MiB{}, {:.0f} before the first block; mapped pages {:.0f} MiB\n",
      recipe.out.string(), recipe.method_name, recipe.models.size(), report.numbers, report.merged.density,
      report.merged.passes, seconds, report.bytes / 1e9 / seconds, anonymous,
      ranks == nullptr ? "" : " at most", idle, pages);
  if (storage && report.written > 0)
    fmt::print(
        "of the file system: {:.0f} % of what {} ranks read when it was measured, {:.0f} % of what they "
        "wrote\n",
        100 * report.read / seconds / storage->read_bytes_per_second, storage->ranks,
        100 * report.written / seconds / storage->write_bytes_per_second);
  if (!report.matrices.empty()) print_adapter(report);
  for (const auto& note : report.notes) fmt::print("{}\n", note);
}

/// Every file that is read here is one that the user named.
void carry_out_for_user(const std::function<void()>& work) try {
  work();
} catch (const store::ReadFailure& failure) {
  throw InputError(failure.what());
}

int carried_out_alone(const std::function<merging::Recipe()>& read, const char* command,
                      const std::filesystem::path& bench) try {
  catch_signals();
  carry_out_for_user([&] { carry_out(read, command, stop, nullptr, bench); });
  return 0;
} catch (const Interrupted& stopped) {
  fmt::print(stderr, "taugrid: stopped: {}\n", stopped.what());  // as of several ranks
  return static_cast<int>(ExitCode::resumable);
}

int carried_out(int& argc, char**& argv, const std::function<merging::Recipe()>& read, const char* command,
                const std::filesystem::path& bench = {}) {
  comm::require_connected();
  if (!comm::launched_rank()) return carried_out_alone(read, command, bench);
  const char* threads = std::getenv("OMP_NUM_THREADS");
  comm::Runtime runtime(argc, argv, {.threads = threads != nullptr ? at::get_num_threads() : 1});
  return comm::run_guarded(runtime, [&] {
    runtime.check_launcher();
    carry_out_for_user([&] { carry_out(read, command, runtime.stop(), &runtime.world(), bench); });
  });
}

}  // namespace

int merge(int& argc, char**& argv, const MergeOptions& options) {
  return carried_out(
      argc, argv, [&] { return merging::Recipe::read(options.recipe, options.out); }, "merge", options.bench);
}

int plan_merge(const MergeOptions& options) {
  carry_out_for_user([&] {
    const auto recipe = merging::Recipe::read(options.recipe, options.out, /*needs_out=*/false);
    std::optional<plan::Together> storage;
    if (!options.bench.empty()) storage = plan::read_storage(options.bench);
    fmt::print("the busiest rank of a {} of {} models\n{:>7} {:>10} {:>10} {:>10} {:>10} {:>9}\n",
               recipe.method_name, recipe.models.size(), "ranks", "reads", "writes", "memory", "Tflop",
               storage ? "seconds" : "");
    for (const auto ranks : options.plan) {
      const auto loads = merging::loads(recipe, ranks);
      const auto busiest = busiest_of(loads);
      fmt::print("{:>7} {:>10} {:>10} {:>10} {:>10.3g}", ranks, size(busiest.read), size(busiest.written),
                 size(busiest.memory), busiest.flops / 1e12);
      if (storage) {
        // Fewer ranks than measured get their part of what these did; more get no more.
        const double part = 1 / static_cast<double>(std::max(ranks, storage->ranks));
        fmt::print(" {:>9.0f}", busiest.read / (part * storage->read_bytes_per_second) +
                                    busiest.written / (part * storage->write_bytes_per_second));
      }
      fmt::print("\n");
    }
    fmt::print("memory: what it holds, about, mapped pages of the models aside\n");
    if (storage)
      fmt::print(
          "seconds: of reading, then writing, at what {} ranks did when the file system was measured\n",
          storage->ranks);
  });
  return 0;
}

int extract(int& argc, char**& argv, const ExtractOptions& options) {
  if (options.rank == 0 && options.share >= 1)
    throw InputError("extract: says neither --rank nor --share below 1; expected one of them, or both");
  return carried_out(
      argc, argv,
      [&] {
        return merging::Recipe::extraction(options.base, options.model, options.out, options.rank,
                                           options.share, options.dtype);
      },
      "extract");
}

}  // namespace taugrid::program
