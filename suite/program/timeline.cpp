// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid timeline: where the time of one training step goes on the host, on all ranks as one group.
#include <ATen/ATen.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "suite/comm/clock.hpp"
#include "suite/comm/failure.hpp"
#include "suite/comm/runtime.hpp"
#include "suite/config/config.hpp"
#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/output_file.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/study/regime.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::program {
namespace {

constexpr int warm_up = 4, columns = 64;

struct Timeline {
  std::vector<std::string> what;  // of each span, the same on all ranks
  at::Tensor times;               // float64 [ranks, spans, 2], seconds from the step's begin
  double end() const { return times.max().item<double>(); }
  double begin(std::int64_t rank, std::size_t i) const { return at(rank, i, 0); }
  double end(std::int64_t rank, std::size_t i) const { return at(rank, i, 1); }

 private:
  double at(std::int64_t rank, std::size_t i, std::int64_t side) const {
    return times[rank][static_cast<std::int64_t>(i)][side].item<double>();
  }
};

Timeline measure(const comm::Runtime& runtime, training::Trainer& trainer) {
  const auto& world = runtime.world();
  for (int step = 0; step < warm_up; ++step) trainer.step(step);
  std::vector<training::Update::Span> spans;
  trainer.observe(spans);
  world.barrier("begin of the step");
  const double began = comm::steady_seconds();
  trainer.step(warm_up);
  Timeline line;
  auto mine = at::zeros({1, static_cast<std::int64_t>(spans.size()), 2}, at::kDouble);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    line.what.push_back(spans[i].what);
    mine[0][static_cast<std::int64_t>(i)][0] = spans[i].begin - began;
    mine[0][static_cast<std::int64_t>(i)][1] = spans[i].end - began;
  }
  line.times = world.all_gather(mine, "gathering the timeline");
  return line;
}

/// Seconds of all sums of a rank, and of these the ones beside its forward and backward pass.
std::pair<double, double> sums_of(const Timeline& line, std::int64_t rank) {
  double until = 0, all = 0, hidden = 0;
  for (std::size_t i = 0; i < line.what.size(); ++i) {
    if (line.what[i] == "forward and backward") until = line.end(rank, i);
  }
  for (std::size_t i = 0; i < line.what.size(); ++i) {
    if (line.what[i] != "sum") continue;
    all += line.end(rank, i) - line.begin(rank, i);
    hidden += std::max(0.0, std::min(until, line.end(rank, i)) - line.begin(rank, i));
  }
  return {all, hidden};
}

void print(const Timeline& line) {
  const double end = line.end();
  for (std::int64_t rank = 0; rank < line.times.size(0); ++rank) {
    fmt::print("rank {}\n", rank);
    for (std::size_t i = 0; i < line.what.size(); ++i) {
      const auto column = [&](double time) { return static_cast<int>(std::lround(time / end * columns)); };
      const int from = std::clamp(column(line.begin(rank, i)), 0, columns - 1);
      const int to = std::clamp(column(line.end(rank, i)), from + 1, columns);
      fmt::print("  {:<20} {:>8.2f} … {:>8.2f} ms  {}{}\n", line.what[i], 1e3 * line.begin(rank, i),
                 1e3 * line.end(rank, i), std::string(static_cast<std::size_t>(from), ' '),
                 std::string(static_cast<std::size_t>(to - from), '#'));
    }
    if (const auto [all, hidden] = sums_of(line, rank); all > 0) {
      fmt::print("  sums of gradients {:.2f} ms, {:.0f} % of it beside the backward pass\n", 1e3 * all,
                 100 * hidden / all);
    }
  }
}

/// As chrome://tracing and Perfetto read it.
void write_trace(const std::filesystem::path& path, const Timeline& line) {
  auto events = nlohmann::json::array();
  for (std::int64_t rank = 0; rank < line.times.size(0); ++rank) {
    for (std::size_t i = 0; i < line.what.size(); ++i) {
      events.push_back({{"name", line.what[i]},
                        {"ph", "X"},
                        {"pid", rank},
                        {"tid", line.what[i] == "sum" ? "sums" : "step"},
                        {"ts", 1e6 * line.begin(rank, i)},
                        {"dur", 1e6 * (line.end(rank, i) - line.begin(rank, i))}});
    }
  }
  store::write_atomically(path, nlohmann::json{{"traceEvents", events}}.dump(1) + "\n");
}

void run_timeline(comm::Runtime& runtime, const RunOptions& options) {
  runtime.check_launcher();
  runtime.limit_collectives(std::chrono::duration<double>(options.collective_limit));
  require_apart("--json", options.json, {options.experiment});
  auto config = config::Config::load(options.experiment, options.overrides);
  study::Study study(config, runtime.device());
  const auto experiments = experiments::make_experiments(config, study);
  const auto trainings = training::read_trainings(config);
  config.finish();
  const auto& names = study.settings.regimes;
  const auto trained = std::find_if(names.begin(), names.end(), [&](const auto& name) {
    return study.settings.trains(name) && study::regime(name).start.empty();
  });
  if (trained == names.end()) throw InputError("section [finetune] trains nothing from the start");
  runtime.set_threads(study.settings.threads);
  training::Trainer trainer(study, *trained, trainings.at(*trained), 0, runtime.world());
  const auto line = measure(runtime, trainer);
  if (runtime.world().rank() != 0) return;
  fmt::print("step {} of finetune/{}/{}, batch {}, {} parameters, {} rank{} as one group: {:.2f} ms\n",
             warm_up, *trained, study.tasks.name(0), trainings.at(*trained).batch,
             study.model.layout().size(), runtime.world().size(), runtime.world().size() == 1 ? "" : "s",
             1e3 * line.end());
  print(line);
  if (!options.json.empty()) write_trace(options.json, line);
}

}  // namespace

int timeline(int& argc, char**& argv, const RunOptions& options) {
  comm::Runtime runtime(argc, argv);  // a GPU's side is its own profiler's to show
  return comm::run_guarded(runtime, [&] { run_timeline(runtime, options); });
}

}  // namespace taugrid::program
