// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid run: configuration → units → results.h5.
#include <ATen/ATen.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "suite/comm/device.hpp"
#include "suite/comm/failure.hpp"
#include "suite/comm/host_products.hpp"
#include "suite/comm/runtime.hpp"
#include "suite/config/config.hpp"
#include "suite/error.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/machine/energy.hpp"
#include "suite/machine/figure_of_merit.hpp"
#include "suite/machine/versions.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/provenance.hpp"
#include "suite/program/record.hpp"
#include "suite/program/results.hpp"
#include "suite/schedule/scheduler.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/hdf5.hpp"
#include "suite/store/input_file.hpp"
#include "suite/study/memory_bound.hpp"
#include "taugrid_version.hpp"

namespace taugrid::program {
namespace {

/// The run's first start, as its folder says; empty before it. For one rank, as files of others may be seen
/// late.
std::string first_start(const std::filesystem::path& folder) {
  const auto text = store::InputFile::text(folder / "started_utc").value_or("");
  return text.substr(0, text.find('\n'));
}

/// The same, kept over restarts. Rank 0 alone looks, and alone needs it.
std::string started_utc(const comm::Communicator& world, const std::filesystem::path& folder) {
  std::string text;
  schedule::on_first_rank(world, "start of the run", [&] {
    text = first_start(folder);
    if (!text.empty()) return;
    text = utc_now();
    store::write_atomically(folder / "started_utc", text + "\n");
  });
  return text;
}

/// A results.h5 that the run in this folder did not write would be lost, or be taken for its own. Throws
/// InputError.
void require_own_results(const std::filesystem::path& folder) {
  const auto results = folder / "results.h5";
  if (!exists(symlink_status(results))) return;
  std::string theirs;
  try {
    theirs = store::Hdf5File(results).text_attribute("/", "started_utc").value_or("");
  } catch (const store::FileInUse&) {
    throw;
  } catch (const InputError&) {  // no results at all: said below
  }
  const auto ours = first_start(folder);
  if (!ours.empty() && theirs == ours) return;
  throw InputError(fmt::format("{} is not of this run ({}, {}): move it away, or choose another --run-dir",
                               results.string(),
                               theirs.empty() ? "it holds no results" : "it is of one begun at " + theirs,
                               ours.empty() ? "which begins now" : "which began at " + ours));
}

double flops_of(const std::vector<schedule::WorkUnit>& units) {
  double flops = 0;
  for (const auto& unit : units) flops += unit.load.flops;
  return flops;
}

void write_results(comm::Runtime& runtime, const study::Study& study,
                   const experiments::Experiments& experiments, const schedule::RunFolder& folder,
                   const std::vector<schedule::WorkUnit>& units, const Finish& finish, bool mixed,
                   const std::string& command_line, const std::string& started,
                   const machine::EnergyMeter& energy) {
  const comm::Doing doing("writing results.h5");
  store::ResultsWriter file(folder.path() / "results.h5", runtime.world(), &runtime.stop());
  ledger::Results out(file, experiments::contents_of(experiments, study, run_outputs()));
  out.attribute("/", "schema_version", std::int64_t{2});
  out.attribute("/", "taugrid_version", std::string(version));
  out.attribute("/", "git_revision", std::string(git_revision));
  out.attribute("/", "command_line", command_line);
  out.attribute("/", "started_utc", started);
  out.attribute("/", "finished_utc", utc_now());
  out.attribute("/", "units_digest", finish.digest);

  std::vector<std::string> names, spaces, metrics, groups;
  std::vector<std::int64_t> classes, pairs;
  for (std::size_t t = 0; t < study.tasks.size(); ++t) {
    names.push_back(study.tasks.name(t));
    classes.push_back(study.tasks.data(t).classes());
    spaces.emplace_back(study.readouts.of(t).space(study.model.encoder()));
    groups.push_back(study.tasks.data(t).group);
    const auto& metric = study.tasks.data(t).head.metric;
    metrics.push_back(metric.empty() ? "accuracy" : metric);
  }
  for (const auto& [i, j] : study.tasks.pairs()) {
    pairs.push_back(static_cast<std::int64_t>(i));
    pairs.push_back(static_cast<std::int64_t>(j));
  }
  out.put("/tasks/name", names);
  out.put("/tasks/classes", at::tensor(classes, at::kLong));
  out.put("/tasks/space", spaces);
  if (std::any_of(metrics.begin(), metrics.end(), [](const std::string& each) { return each != "accuracy"; }))
    out.put("/tasks/metric", metrics);
  if (std::any_of(groups.begin(), groups.end(), [](const std::string& each) { return !each.empty(); }))
    out.put("/tasks/group", groups);
  if (!study.settings.variants.empty()) {
    std::vector<std::string> data;
    for (const auto& variant : study.settings.variants) data.push_back(variant.data);
    out.put("/tasks/data", data);
  }
  if (!pairs.empty()) out.put("/pairs/tasks", at::tensor(pairs, at::kLong).view({-1, 2}));

  out.attribute("/model", "architecture", study.model.encoder().architecture());
  out.attribute("/model", "name", study.settings.model.filename().string());
  out.attribute("/model", "parameters", study.model.layout().size());
  out.attribute("/model", "init", study.model.name());
  if (study.settings.random_init)
    out.attribute("/model", "drawn_as", study.settings.drawn_by_open_clip ? "open_clip" : "hugging_face");
  out.attribute("/model", "fingerprint", study.model.fingerprint());
  out.attribute("/model", "evaluation_points", study.settings.evaluation_points);
  out.attribute("/model", "control_points", study.settings.control_points);
  if (study.model.encoder().mixes_in_training()) {
    out.attribute("/model", "buffers", study.settings.buffers);
    out.attribute("/model", "buffers_points", study.settings.buffers_points);
    if (study.settings.buffers == "recompute")
      out.put("/model/buffers_sample_index",
              study.samples.index(study::Split::train, study.settings.buffers_points));
  }

  const experiments::Finished finished{folder, runtime.world()};
  for (const auto& experiment : experiments) experiment->write(out, finished);

  file.units(finish.rows);

  const auto& world = runtime.world();
  for (const auto& [name, value] : of_first_rank(world, machine::versions(), "versions"))
    out.attribute("/provenance", name, value);
  for (const auto& [name, value] : of_first_rank(world, launcher_variables(), "the launcher's variables"))
    out.attribute("/provenance", name, value);
  out.attribute("/provenance", "computed_by", finish.computed_by);
  out.attribute("/provenance", "mixed", std::int64_t{mixed});
  out.attribute("/provenance", "seed", static_cast<std::int64_t>(study.settings.seed));
  out.attribute("/provenance", "ranks", static_cast<std::int64_t>(runtime.world().size()));
  out.attribute("/provenance", "ranks_per_unit", static_cast<std::int64_t>(study.settings.ranks_per_unit));
  out.attribute("/provenance", "precision", study.settings.precision);
  out.attribute("/provenance", "threads_per_rank", static_cast<std::int64_t>(study.settings.threads));
  std::vector<std::string> hosts, devices;
  for (const auto& rank : runtime.ranks()) {
    hosts.push_back(rank.host);
    devices.push_back(rank.device);
  }
  out.attribute("/provenance", "model_flops", flops_of(units));  // how large the work is
  if (const double joules = machine::joules_of_all(world, energy.joules()); !std::isnan(joules)) {
    out.attribute("/provenance", "joules", joules);
    out.attribute("/provenance", "energy_source",
                  of_first_rank(world, {{"energy_source", energy.source()}}, "counters of joules")[0].second);
  }
  out.attribute("/provenance", "hosts", hosts);
  out.attribute("/provenance", "devices", devices);
  file.commit();
}

/// A speed only where this call did all of the work.
void print_figures(const schedule::RunReport& report, double seconds, double joules,
                   const std::vector<schedule::WorkUnit>& units) {
  machine::print_figure_of_merit("run/time", seconds, "s");
  machine::print_figure_of_merit("run/units", static_cast<double>(report.computed), "units");
  if (!std::isnan(joules)) machine::print_figure_of_merit("run/energy", joules, "J");
  if (report.skipped > 0 || seconds <= 0) return;
  machine::print_figure_of_merit("run/rate", static_cast<double>(report.computed) / seconds, "units/s");
  machine::print_figure_of_merit("run/speed", flops_of(units) / seconds, "flop/s");
}

/// What the file asks of this host that it lacks. Throws InputError.
void require_of_host(const study::Settings& settings, at::Device device) {
  constexpr int most_a_core = 4;
  const auto cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (cores > 0 && settings.threads > most_a_core * cores)
    throw InputError(
        fmt::format("run.threads_per_rank is {}, and this host has {} cores; expected at most {}",
                    settings.threads, cores, most_a_core * cores));
  if (settings.precision == "tf32" && !device.is_cuda())
    throw InputError(
        "run.precision is tf32, which GPUs alone have, and this run computes on the host; "
        "expected float32, bf16 or bf16_products");
  if (settings.precision == "bf16_products" && !device.is_cpu())
    throw InputError(
        "run.precision is bf16_products, which is for hosts, and this run computes on a GPU; "
        "expected float32, tf32 or bf16");
  if (settings.precision == "bf16_products" && !comm::multiplies_bfloat16())
    throw InputError(
        "run.precision is bf16_products, which needs AMX: here LibTorch does not round factors of products "
        "to bfloat16 (the processor has no AMX, or ONEDNN_MAX_CPU_ISA forbids it); expected float32 or bf16");
}

/// No unit takes more memory than there is, as counted from its model and points before any is taken. Throws
/// InputError.
void require_memory(const std::vector<schedule::WorkUnit>& units, at::Device device) {
  constexpr double gib = std::int64_t{1} << 30;
  const auto memory = device.is_cuda() ? comm::gpu_memory() : study::host_memory();
  for (const auto& unit : units) {
    if (const auto asked = unit.load.working + unit.load.held; asked > memory)
      throw InputError(
          fmt::format("{} would take {:.1f} GiB at once, and there are {:.1f}; expected fewer points "
                      "at once ([{}] batch or chunk, data.evaluation_batch)",
                      unit.key, asked / gib, memory / gib, unit.key.substr(0, unit.key.find('/'))));
  }
}

void compute(comm::Runtime& runtime, const RunOptions& options) {
  runtime.check_launcher();
  runtime.limit_collectives(std::chrono::duration<double>(options.collective_limit));
  runtime.limit_stops(std::chrono::duration<double>(options.stop_within));
  const machine::EnergyMeter energy(machine::energy_places(runtime));
  auto config = config::Config::load(options.experiment, options.overrides);
  study::Study study(config, runtime.device(), runtime.ranks_on_host());
  const auto experiments = experiments::make_experiments(config, study);
  config.finish();
  if (study.settings.ranks_per_unit > runtime.world().size()) {
    throw InputError(fmt::format("run.ranks_per_unit is {}; this launch has {} rank{}",
                                 study.settings.ranks_per_unit, runtime.world().size(),
                                 runtime.world().size() == 1 ? "" : "s"));
  }
  require_of_host(study.settings, runtime.device());
  runtime.set_threads(study.settings.threads);
  if (options.time_limit_minutes)
    runtime.set_time_limit(std::chrono::duration<double>(60 * *options.time_limit_minutes));

  const auto path =
      options.run_dir.empty() ? std::filesystem::path("runs") / study.settings.name : options.run_dir;
  schedule::on_first_rank(runtime.world(), "whose results.h5 is there", [&] { require_own_results(path); });
  schedule::RunFolder::Care care;
  care.lost = [&runtime](const std::string& problem) { comm::fail_now(runtime, problem); };
  const schedule::RunFolder folder(runtime.world(), path, config.resolved(), care);
  study.vectors.set_folder(folder.path());
  std::vector<std::filesystem::path> inputs;
  for (const auto& experiment : experiments) {
    for (auto& file : experiment->inputs()) inputs.push_back(std::move(file));
  }
  const auto read = study::inputs_of(study, inputs, runtime);
  folder.require_same_inputs(runtime.world(), read.text, read.without_configuration);
  const auto makers = admit(runtime, folder, options.mixed);
  schedule::on_first_rank(runtime.world(), "links to the inputs",
                          [&] { study::link_inputs(study, folder.path(), config.has("pretrain")); });
  const bool first = runtime.world().rank() == 0;
  if (first) {
    fmt::print(stderr, "taugrid {} ({}), {}: {} tasks, {} pairs, {} parameters\n", version, git_revision,
               study.settings.name, study.tasks.size(), study.tasks.pairs().size(),
               study.model.layout().size());
    fmt::print(stderr, "{}", runtime.banner());
    for (const auto& note : study.model.notes()) fmt::print(stderr, "# {}\n", as_line(note));
  }
  runtime.print_warnings();
  const auto counted = machine::agree_on_counters(runtime, energy);
  if (first) fmt::print(stderr, "# joules: {}\n", counted.line);
  const auto started = started_utc(runtime.world(), folder.path());

  const auto units = experiments::units_of(experiments, study, folder);
  require_memory(units, runtime.device());
  schedule::Options how;
  how.ranks_per_unit = study.settings.ranks_per_unit;
  how.header["computed_by"] = computed_by(runtime);
  if (!counted.source.empty()) how.joules = [&energy] { return energy.joules(); };
  how.energy_source = counted.source;
  const auto report = schedule::run_units(runtime, folder, units, how);

  // Rank 0 alone reads the headers: of 10,000 units on 512 ranks, all would open five million files.
  const auto results = folder.path() / "results.h5";
  Finish finish;
  bool up_to_date = false;
  schedule::on_first_rank(runtime.world(), "headers of the units", [&] {
    finish = read_finished(folder, units);
    up_to_date = made_of(results, finish.digest);
  });
  if (runtime.world().patient_broadcast(up_to_date ? 1 : 0, 0, "whether results.h5 is up to date") == 0) {
    write_results(runtime, study, experiments, folder, units, finish, makers.size() > 1, options.command_line,
                  started, energy);
    schedule::on_first_rank(runtime.world(), "digest of results.h5", [&] { keep_digest(results); });
  }
  const double joules = machine::joules_of_all(runtime.world(), energy.joules());
  if (first) {
    fmt::print(stderr, "taugrid: {} units computed, {} found finished, {:.1f} s\n", report.computed,
               report.skipped, runtime.elapsed());
    print_figures(report, runtime.elapsed(), joules, units);
    fmt::print("{}\n", results.string());
  }
}

}  // namespace

std::vector<ledger::OutputGroup> run_outputs() {
  using ledger::Element, ledger::With;
  return {
      {"/",
       "the run",
       {{"@schema_version", "", "", "2"},
        {"@taugrid_version", "", "", "of the program"},
        {"@git_revision", "", "", "of its sources"},
        {"@command_line", "", "", "of the last start"},
        {"@started_utc", "", "", "when the run was first started"},
        {"@finished_utc", "", "", "when this file was written"},
        {"@units_digest", "", "", "of all units' files"},
        {"units", "unit", "",
         "of each unit its key, rank, seconds, device, and, where something counts them, joules and "
         "energy_source",
         With{.table = true}}}},
      {"/tasks",
       "the tasks",
       {{"name", "task", "", "its name", With{.text = true, .scale = "task"}},
        {"classes", "task", "", "how many, of which its head has a row each",
         With{.element = Element::int64}},
        {"space", "task", "",
         "the space that its output lies in, which a linear regime linearises: encoder output, logits of "
         "label words, or word head's output at the mask",
         With{.text = true}},
        {"metric", "task", "", "what is called its accuracy",
         With{.text = true, .when = "one that is not accuracy"}},
        {"group", "task", "", "the natural group that its data set names, empty where none",
         With{.text = true, .when = "one that has any"}},
        {"data", "task", "", "the task that is fine-tuned several times",
         With{.text = true, .when = "[variants]"}}}},
      {"/pairs",
       "the pairs of tasks that are measured",
       {{"tasks", "pair side", "", "places in /tasks", With{.element = Element::int64}}}},
      {"/model",
       "θ0",
       {{"@architecture", "", "", "its name in the configuration of Hugging Face"},
        {"@name", "", "", "of its folder"},
        {"@parameters", "", "", "how many numbers θ0 has"},
        {"@init", "", "", "pretrained or random: θ0's name in paths"},
        {"@drawn_as", "", "", "whose start at random θ0 is: hugging_face or open_clip",
         With{.when = "a θ0 at random"}},
        {"@fingerprint", "", "", "of its numbers"},
        {"@evaluation_points", "", "", "N, a task and split"},
        {"@control_points", "", "", "the same of the control"},
        {"@buffers", "", "", "where batch norm's statistics come from",
         With{.when = "a model with batch norm"}},
        {"@buffers_points", "", "", "of how many points they are", With{.when = "a model with batch norm"}},
        {"buffers_sample_index", "task buffers_point", "",
         "rows of these points in the task's train split, −1 behind the end",
         With{.element = Element::int64, .when = "buffers = \"recompute\""}}}},
      {"/provenance",
       "where and by what the numbers were computed",
       {{"@joules", "", "", "of the last start, in joules, all ranks' together, until this file was written",
         With{.when = "something counts them"}},
        {"@energy_source", "", "", "what counted them on rank 0: pm_counters, rapl, hwmon, nvml",
         With{.when = "something counts them"}},
        {"@NAME", "", "",
         "versions as compiled and as loaded, the launcher's variables, seed, ranks, hosts, devices, "
         "precision: an "
         "allow-list"}}},
      {"/dimensions",
       "dimensions that are counted alone",
       {{"NAME", "NAME", "", "0, 1, …", With{.element = Element::int64, .scale = "NAME"}}}}};
}

int run(int& argc, char**& argv, const RunOptions& options) {
  comm::Runtime runtime(argc, argv, {.device = options.device});
  return comm::run_guarded(runtime, [&] { compute(runtime, options); });
}

}  // namespace taugrid::program
