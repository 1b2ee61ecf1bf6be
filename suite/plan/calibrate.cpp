// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/plan/calibrate.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <ctime>
#include <exception>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "suite/comm/device.hpp"
#include "suite/ledger/tally.hpp"
#include "suite/machine/machine.hpp"
#include "suite/schedule/run_folder.hpp"
#include "suite/study/memory_bound.hpp"
#include "suite/study/regime.hpp"
#include "suite/training/rehearsal.hpp"

namespace taugrid::plan {
namespace {

namespace fs = std::filesystem;
using schedule::Rehearsal;
using schedule::WorkUnit;
using study::Study;

constexpr double patience = 0.4;  // seconds of one measurement, where calls are as short
constexpr double too_long = 2;    // seconds of a call that is not repeated, nor made larger

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double seconds_of(F&& f) {
  const double began = now(CLOCK_MONOTONIC);
  f();
  return now(CLOCK_MONOTONIC) - began;
}

/// The seconds of computing alone: a host's single thread has its own time, without what other programs take
/// meanwhile.
template <class F>
double computing_seconds(at::Device device, F&& f) {
  const bool single = device.is_cpu() && at::get_num_threads() == 1;
  const auto clock = single ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const double began = now(clock);
  machine::run_on(device, f);
  return now(clock) - began;
}

double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

/// The median of one to seven runs after the first, which pays what is paid once; of a long call, the first.
double typical_seconds(at::Device device, const Rehearsal& call) {
  const double first = computing_seconds(device, call.run);
  if (first > too_long) return first;
  std::vector<double> all;
  const auto runs = std::clamp(static_cast<int>(patience / std::max(first, 1e-6)), 1, 7);
  for (int i = 0; i < runs; ++i) all.push_back(computing_seconds(device, call.run));
  return median(std::move(all));
}

struct Measured {
  double flops = 0, seconds = 0;
};

/// From a few inputs to as many as the units have, or as patience allows: what a call takes in any case, and
/// a flop besides, from the two largest. Two sizes at least: an update of θ must not count for each input.
Rate measure(const Study& study, const comm::Communicator& alone, const schedule::Work& wanted) {
  std::vector<Measured> sizes;
  for (auto n = std::max<std::int64_t>(1, wanted.inputs / 64); true; n = std::min(wanted.inputs, 4 * n)) {
    const auto width =
        wanted.kind == "gram" ? std::max<std::int64_t>(1, wanted.width * n / wanted.inputs) : wanted.width;
    const auto call = wanted.rehearse(alone, n, width);
    sizes.push_back({call.flops, typical_seconds(study.device, call)});
    const double last = sizes.back().seconds;
    if (n >= wanted.inputs || last > too_long || (sizes.size() > 1 && last > patience / 2)) break;
  }
  const auto& large = sizes.back();
  Rate rate{0, large.flops / large.seconds};
  if (sizes.size() > 1) {
    const auto& small = sizes[sizes.size() - 2];
    const double slope = (large.seconds - small.seconds) / (large.flops - small.flops);
    const double rest = large.seconds - slope * large.flops;
    if (slope > 0 && rest > 0) rate = {rest, 1 / slope};
  }
  return rate;
}

/// Regimes that differ in their data alone train alike.
std::string alike(const std::string& kind) {
  if (!kind.starts_with("train/")) return kind;
  const auto& regime = study::regime(kind.substr(6));
  if (!regime.groups.empty()) return kind;
  return regime.linear ? "train/linear" : "train/standard";
}

/// The call of each kind that most of its flops are in.
std::map<std::string, schedule::Work> typical_work(const std::vector<const WorkUnit*>& units) {
  std::map<std::string, std::map<std::int64_t, double>> flops;
  std::map<std::string, std::map<std::int64_t, schedule::Work>> examples;
  for (const auto* unit : units) {
    for (const auto& work : unit->load.work) {
      flops[work.kind][work.inputs] += work.calls * work.flops;
      examples[work.kind].emplace(work.inputs, work);
    }
  }
  std::map<std::string, schedule::Work> typical;
  for (const auto& [kind, sizes] : flops) {
    const auto most = std::max_element(sizes.begin(), sizes.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    typical[kind] = examples[kind].at(most->first);
  }
  return typical;
}

/// A gradient; where models are held a stage at a time, which train none, a stage.
Rehearsal rehearse_model(const Study& study, std::int64_t inputs) {
  return study.model.by_stages() ? ledger::rehearse_stage(study, inputs)
                                 : training::rehearse_gradient(study, inputs);
}

/// How much longer a gradient takes with all cores at work than alone.
double measure_crowding(const Study& study, int ranks, std::int64_t inputs) {
  // As many as have room for their gradients in half of the memory: what a machine does to each shows by
  // then.
  const auto gradient = sizeof(float) * static_cast<double>(study.model.layout().size());
  if (!study.model.by_stages())
    ranks = static_cast<int>(std::min<double>(ranks, study::host_memory() / 2 / gradient));
  if (ranks < 2) return 1;
  auto call = rehearse_model(study, inputs);
  while (computing_seconds(study.device, call.run) > patience / 2 && inputs > 1)
    call = rehearse_model(study, inputs /= 2);
  const double again = computing_seconds(study.device, call.run);  // the first pays what is paid once
  const auto runs = std::clamp(static_cast<int>(patience / again), 1, 50);
  std::vector<Rehearsal> calls;
  while (std::ssize(calls) < ranks) calls.push_back(rehearse_model(study, inputs));
  const auto work = [&](const Rehearsal& rehearsal, std::barrier<>& together) {
    rehearsal.run();
    together.arrive_and_wait();
    return computing_seconds(study.device, [&] {
      for (int i = 0; i < runs; ++i) rehearsal.run();
    });
  };
  const int threads = at::get_num_threads();
  // What else happens on the machine only adds: so the least of each, in turn.
  double alone = std::numeric_limits<double>::infinity(), crowded = alone;
  for (int trial = 0; trial < 5; ++trial) {
    std::barrier single(1), together(ranks);
    alone = std::min(alone, work(calls[0], single));
    std::vector<double> seconds(calls.size());
    std::vector<std::exception_ptr> problems(calls.size());
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        others.emplace_back([&, i] {
          try {
            at::set_num_threads(threads);
            seconds[i] = work(calls[i], together);
          } catch (...) {
            problems[i] = std::current_exception();
            together.arrive_and_drop();
          }
        });
      }
    }
    for (const auto& problem : problems)
      if (problem) std::rethrow_exception(problem);
    double sum = 0;
    for (const double each : seconds) sum += each;
    crowded = std::min(crowded, sum / ranks);
  }
  return std::max(1.0, crowded / alone);
}

/// Where the run folder would lie, or, if that cannot be written, in the system's folder for such.
fs::path scratch_folder() {
  const auto name = ".taugrid-plan-" + std::to_string(getpid());
  for (const auto& parent : {fs::current_path(), fs::temp_directory_path()}) {
    std::error_code error;
    if (fs::create_directory(parent / name, error)) return parent / name;
  }
  throw std::runtime_error("cannot create a folder to measure the file system with");
}

void measure_files(const comm::Runtime& runtime, Profile& profile) {
  const auto path = scratch_folder();
  try {
    const schedule::RunFolder folder(runtime.world(), path, "");
    constexpr int small = 20;
    store::TensorFile file;
    file.tensors["value"] = at::zeros({64}, at::kDouble);
    const auto key = [](int i) { return "unit/" + std::to_string(i); };
    std::vector<double> commits, reads;
    for (int i = 0; i < small; ++i) {
      commits.push_back(seconds_of([&] {
        fs::create_directories(folder.scratch_path(key(i)));
        folder.commit(key(i), file);
        fs::remove_all(folder.scratch_path(key(i)));
      }));
      reads.push_back(seconds_of([&] { folder.read_unit(key(i)); }));
    }
    const double dealing = 1e-3;  // the dealer looks once a millisecond
    profile.unit_seconds = median(commits) + dealing;
    profile.open_seconds = median(reads);
    constexpr std::int64_t numbers = 8 << 20;
    file.tensors["value"] = at::zeros({numbers}, at::kFloat);
    const double bytes = 4.0 * static_cast<double>(numbers);
    profile.write_bytes_per_second = bytes / seconds_of([&] { folder.commit("large", file); });
    profile.read_bytes_per_second = bytes / seconds_of([&] { folder.read_unit("large"); });
  } catch (...) {
    fs::remove_all(path);
    throw;
  }
  fs::remove_all(path);
}

double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

double process_seconds() {
  std::ifstream in("/proc/self/stat");
  std::string text;
  std::getline(in, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // from the third on
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return now(CLOCK_BOOTTIME) - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Pictures are mapped: their pages are shared by the ranks of a host, and given up when memory is short.
double study_bytes(const Study& study) {
  double bytes = study.model.by_stages() ? 0 : 4 * static_cast<double>(study.model.layout().size());
  for (std::size_t t = 0; t < study.tasks.with_control(); ++t) {
    for (const auto split : {study::Split::train, study::Split::validation, study::Split::test}) {
      const auto& samples = study.tasks.data(t).split(split);
      if (samples.inputs.defined()) bytes += static_cast<double>(samples.labels.nbytes());
    }
  }
  return bytes;
}

Profile calibrate(const comm::Runtime& runtime, const Study& study,
                  const std::vector<const WorkUnit*>& units) {
  Profile profile;
  for (const auto& [name, value] : machine::describe_machine()) {
    if (name == "host") profile.host = value;
    if (name == "processor") profile.processor = value;
    if (name == "taugrid" || name == "build" || name == "libtorch" || name == "kokkos" ||
        name == "instructions" || name == "products")
      profile.versions[name] = value;
  }
  profile.cores = runtime.mine().cores;
  profile.memory_bytes = study::host_memory();
  profile.threads_per_rank = at::get_num_threads();
  profile.device = runtime.mine().device;
  if (study.device.is_cuda()) {  // a rank a GPU, whatever the cores
    profile.cores = comm::visible_gpus() * profile.threads_per_rank;
    profile.memory_bytes = comm::visible_gpus() * comm::gpu_memory();
  }
  profile.model_parameters = study.model.layout().size();

  rehearse_model(study, 1).run();  // what the libraries load when they are first used
  const double taken = study.device.is_cuda() ? comm::gpu_memory_in_use() : resident_bytes();
  profile.process_bytes = std::max(0.0, taken - study_bytes(study));
  measure_files(runtime, profile);
  const auto typical = typical_work(units);
  std::int64_t batch = study.settings.evaluation_batch;
  std::map<std::pair<std::string, std::int64_t>, Rate> measured;
  for (const auto& [kind, work] : typical) {
    const auto same = std::pair(alike(kind), work.inputs);
    if (!measured.contains(same)) measured[same] = measure(study, runtime.world(), work);
    profile.rates[kind] = measured[same];
    if (kind.starts_with("train/")) batch = work.inputs;
  }
  if (study.device.is_cpu())  // GPUs share nothing
    profile.crowding = measure_crowding(study, profile.cores / profile.threads_per_rank, batch);
  return profile;
}

}  // namespace taugrid::plan
