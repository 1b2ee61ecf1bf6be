// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid merge: recipe → folder, and taugrid extract, which is one of a model and its base; without MPI.
// What it took is printed.
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <string>

#include "suite/comm/stop.hpp"
#include "suite/error.hpp"
#include "suite/merging/recipe.hpp"
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

void throw_if_stopped() {
  if (stop.requested()) throw Interrupted("merge: stopped by " + stop.reason() + "; nothing was written");
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

int carried_out(const std::function<merging::Recipe()>& read, const char* command) try {
  const auto began = std::chrono::steady_clock::now();
  const auto idle = mebibytes("RssAnon");
  const auto recipe = read();
  double mapped = 0;
  catch_signals();
  const auto report = merging::merge(
      recipe, fmt::format("made by taugrid {} ({}): taugrid {}", version, git_revision, command),
      [&] { mapped = mebibytes("RssFile"); }, throw_if_stopped);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  fmt::print(
      "{}: {} of {} models of {} numbers\n"
      "density {:.4f} of the merged vector, {:.2f} passes over the vectors, {:.1f} s, {:.2f} GB/s of input\n"
      "anonymous memory {:.0f} MiB, {:.0f} before the first block; mapped pages {:.0f} MiB\n",
      recipe.out.string(), recipe.method_name, recipe.models.size(), report.numbers, report.merged.density,
      report.merged.passes, seconds, report.bytes / 1e9 / seconds, mebibytes("RssAnon"), idle, mapped);
  if (!report.matrices.empty()) print_adapter(report);
  for (const auto& note : report.notes) fmt::print("{}\n", note);
  return 0;
} catch (const store::ReadFailure& failure) {  // every file that is read here is one that the user named
  throw InputError(failure.what());
} catch (const Interrupted& stopped) {
  fmt::print(stderr, "taugrid: {}\n", stopped.what());
  return static_cast<int>(ExitCode::resumable);
}

}  // namespace

int merge(const std::filesystem::path& path, const std::filesystem::path& out) {
  return carried_out([&] { return merging::Recipe::read(path, out); }, "merge");
}

int extract(const ExtractOptions& options) {
  if (options.rank == 0 && options.share >= 1)
    throw InputError("extract: says neither --rank nor --share below 1; expected one of them, or both");
  return carried_out(
      [&] {
        return merging::Recipe::extraction(options.base, options.model, options.out, options.rank,
                                           options.share, options.dtype);
      },
      "extract");
}

}  // namespace taugrid::program
