// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid: how task vectors compose.
#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>

#include "kernels/weights/backend.hpp"
#include "suite/bench/bench.hpp"
#include "suite/comm/device.hpp"
#include "suite/comm/launcher.hpp"
#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/machine/memory.hpp"
#include "suite/program/commands.hpp"
#include "suite/store/quoted.hpp"
#include "taugrid_version.hpp"

namespace {

/// Before MPI starts, only its launcher's variables say which rank this is: rank 0 alone prints.
bool speaks() {
  const char* task = std::getenv("SLURM_PROCID");
  return taugrid::comm::launched_rank().value_or(task != nullptr ? task : "0") == "0";
}

/// What CLI11 prints behind an option's name, or nothing; its own check lets NaN through.
std::string problem_of_amount(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool fits = end != text.c_str() && *end == '\0' && value > 0 && std::isfinite(value);
  return fits ? "" : "is " + taugrid::store::quoted(text) + "; expected a number above 0";
}

int start(int argc, char** argv) {
  CLI::App app(
      "taugrid measures how task vectors compose: it fine-tunes one pre-trained model on many tasks, and\n"
      "measures every task and every pair of tasks. Start it under mpirun or srun, one process a rank.");
  app.set_version_flag("--version", std::string(taugrid::version) + " (" + taugrid::git_revision + ")");
  app.require_subcommand(1);
  app.footer(
      "Example:\n  mpirun -n 2 taugrid run jobs/experiments/quickstart.toml --run-dir runs/quickstart\n"
      "Exit codes: 0 done; 2 wrong input; 75 stopped early, run again to go on; 1 anything else.");

  taugrid::program::RunOptions options;
  auto* run = app.add_subcommand("run", "Compute what is missing of an experiment and write its results.h5");
  run->add_option("experiment", options.experiment, "The experiment file (TOML)")->required();
  run->add_option("--run-dir", options.run_dir,
                  "The run folder; run again in the same one to go on [runs/NAME]");
  run->add_option("--set", options.overrides, "Override a key: --set finetune.steps=300 (repeatable)")
      ->take_all()
      ->expected(1);
  run->add_option("--time-limit", options.time_limit_minutes,
                  "Stop at a safe point after so many minutes, with exit code 75")
      ->check(problem_of_amount);
  run->add_option("--device", options.device,
                  "Where to compute: auto (a GPU where there is one), cpu, or cuda [auto]");
  run->add_option(
         "--collective-limit", options.collective_limit,
         "Seconds after which a collective counts as hung and all ranks end, with a line that says which\n"
         "ranks are missing; more for slow networks or very unequal ranks [600]")
      ->check(problem_of_amount);
  run->add_option("--stop-within", options.stop_within,
                  "Seconds after a stop request (a signal, the time limit) after which the job ends with "
                  "exit code 75 as\n"
                  "it is, with a line that says which rank had not come to a safe point; less than the "
                  "notice that the\n"
                  "batch system gives [240]")
      ->check(problem_of_amount);
  run->add_flag(
      "--mixed", options.mixed,
      "Go on although other units were computed by another device, processor, LibTorch or revision;\n"
      "results.h5 then says so");
  run->add_flag("--dry-run", options.dry_run,
                "Check the experiment, list its inputs (what is missing, and where it is expected) and its\n"
                "work; compute nothing");
  auto* timeline = app.add_subcommand(
      "timeline",
      "Show where the time of one training step goes on the host, all ranks as one group:\n"
      "mpirun -n 2 taugrid timeline EXPERIMENT.toml");
  timeline->add_option("experiment", options.experiment, "The experiment file (TOML)")->required();
  timeline->add_option("--set", options.overrides, "Override a key (repeatable)")->take_all()->expected(1);
  timeline->add_option("--json", options.json,
                       "Write the trace to this file, for chrome://tracing or Perfetto");
  taugrid::bench::Options bench_options;
  auto* bench =
      app.add_subcommand("bench", "Measure this build's speed on this machine, and check what it computes");
  bench->add_option("--filter", bench_options.filter,
                    "Only cases whose name matches this regular expression");
  bench
      ->add_option("--size", bench_options.size,
                   "Which cases: small (seconds), medium (minutes), or large (also those on disk) [medium]")
      ->check(CLI::IsMember({"small", "medium", "large"}));
  bench->add_option("--json", bench_options.json, "Write the figures to this file, as google/benchmark does");
  bench->add_option("--repetitions", bench_options.repetitions, "Timed runs of a case, at least [5]")
      ->check(problem_of_amount);
  bench->add_option("--dump", bench_options.dump, "Keep inputs and results in this folder, for jobs/peers");
  bench->add_option("--device", bench_options.device,
                    "Where to measure: auto (a GPU where there is one), cpu, or cuda [auto]");
  bench->add_flag("--roofline", bench_options.roofline,
                  "Also print what bounds each case: flops a byte, both rates beside the machine's peaks, and\n"
                  "the traffic that its memory controllers counted, where they may be read");
  bench->add_flag("--list", bench_options.list, "Print the cases' names");
  taugrid::bench::VerifyOptions verify_options;
  auto* verify = app.add_subcommand(
      "verify",
      "Check within some minutes that this build computes right on this machine: every case of the "
      "bench,\n"
      "once, against another computation and against recorded values; exit code 1 names what is wrong");
  verify->add_option("--filter", verify_options.filter,
                     "Only cases whose name matches this regular expression");
  verify->add_option("--device", verify_options.device,
                     "Where to compute: auto (a GPU where there is one), cpu, or cuda [auto]");
  verify->add_flag("--values", verify_options.values,
                   "Print what is to be recorded (suite/bench/recorded_values.hpp)");
  taugrid::program::PlanOptions plan_options;
  auto* plan = app.add_subcommand(
      "plan",
      "Predict time, memory and storage of an experiment on any number of ranks: from a measurement of this\n"
      "machine of some seconds, from a recorded profile of another, or from what a finished run took");
  plan->add_option("experiment", plan_options.experiment, "The experiment file (TOML)")->required();
  plan->add_option("--ranks", plan_options.ranks, "How many: one number, or several with commas between")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1000000));
  plan->add_option("--set", plan_options.overrides, "Override a key, as for run (repeatable)")
      ->take_all()
      ->expected(1);
  plan->add_option(
      "--profile", plan_options.profile,
      "Do not measure this machine, but take the profile of another (--save-profile); or, of a run\n"
      "of this experiment, RUN/results.h5: its units' seconds");
  plan->add_option("--bench", plan_options.bench,
                   "What sums over ranks and the file system take, where several ranks measured it on such a\n"
                   "machine: mpirun -n N taugrid bench --filter '^(network|storage)/' --json FILE. Without it,\n"
                   "sums cost what memory does");
  plan->add_option("--save-profile", plan_options.save_profile,
                   "Keep the measured profile in this file, to plan elsewhere");
  plan->add_option("--ranks-per-host", plan_options.ranks_per_host,
                   "Of the launch [as many as a host has cores for their threads]")
      ->check(CLI::Range(1, 1000000));
  plan->add_option("--device", plan_options.device,
                   "What to measure and plan for: auto (GPUs where there are some), cpu, or cuda [auto]");
  plan->add_option("--json", plan_options.json, "Write the plan and its units to this file");
  taugrid::program::MergeOptions merge_options;
  auto* merge = app.add_subcommand(
      "merge",
      "Merge checkpoints without data: models of any architecture, fine-tuned from one base, become one.\n"
      "They are Hugging Face folders with model.safetensors, or its parts and their index. They are read\n"
      "block by block, so that memory does not grow with them (methods on matrices, such as tsv_m, hold one of\n"
      "each model); on the host. The ranks of mpirun or srun share out the tensors. A merge that was stopped or\n"
      "killed goes on when it is started again.");
  merge->add_option("recipe", merge_options.recipe, "The recipe: TOML, or mergekit's YAML where it ends with .yml or .yaml")
      ->required();
  merge->add_option("out", merge_options.out, "The folder to be written, in place of the recipe's out");
  bool only_check = false;
  merge->add_flag(
      "--check", only_check,
      "Merge nothing: print whether the models belong together (configurations, vocabularies, types, NaN)\n"
      "and how far each is from its base; exit code 2 where a merge would be wrong");
  merge
      ->add_option("--plan", merge_options.plan,
                   "Merge nothing: print what each of so many ranks would read, write and compute; one number, or\n"
                   "several with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1000000));
  merge->add_option("--bench", merge_options.bench,
                    "What the file system gives, where it was measured: mpirun -n N taugrid bench --filter\n"
                    "'^storage/' --json FILE. The plan has seconds then, and a merge says which share it reached");
  for (const auto* other : {"--plan", "--bench"}) merge->get_option("--check")->excludes(merge->get_option(other));
  merge->footer(
      "mergekit's recipes in YAML are read as they are, and what is not known there is refused:\n"
      "  taugrid merge recipe.yml merged\n"
      "A recipe in TOML, whose words are mergekit's where they mean the same:\n"
      "  merge_method = \"ties\"\n"
      "  base_model = \"clip-vit-base-patch32\"\n"
      "  out = \"merged\"\n"
      "  parameters = { density = 0.2, lambda = 0.4 }\n"
      "  models = [ { model = \"cars\" }, { model = \"svhn\", weight = 0.5 } ]\n"
      "Paths are relative to its folder. OUT is a folder that is not there yet: the base's configuration "
      "and\n"
      "other files, the merged weights in the base's types, and merge.toml, a recipe with every key.\n"
      "Which method? linear is the mean, task_arithmetic the sum: one pass. ties and consensus_ta drop or "
      "outvote\n"
      "numbers on which models disagree: two to three passes. tsv_m and iso_c work on the singular vectors "
      "of each\n"
      "matrix, and take as long as these. Sums of many models need a lambda below 1, best chosen on "
      "validation.\n"
      "Every method and key, and where public codes differ: taugrid keys --recipe; docs/merge.md.");
  taugrid::program::ExtractOptions extract_options;
  auto* extract =
      app.add_subcommand("extract",
                         "Write what a model has more than its base as a LoRA adapter, which PEFT loads: "
                         "each matrix of a layer by\n"
                         "its leading singular triples, one after another; on the host, in one process.");
  extract->add_option("base", extract_options.base, "The folder of θ0")->required();
  extract->add_option("model", extract_options.model, "The folder of a model that was fine-tuned from it")
      ->required();
  extract->add_option("out", extract_options.out, "The folder to be written, which is not there yet")
      ->required();
  extract->add_option("--rank", extract_options.rank, "The rank of each matrix, at most")
      ->check(CLI::Range(1, 1000000));
  extract
      ->add_option("--share", extract_options.share,
                   "The least rank that keeps this share of a matrix' squared norm; with --rank, at most "
                   "that")
      ->check(CLI::Range(1e-9, 1.0));
  extract->add_option("--dtype", extract_options.dtype, "float32, float16 or bfloat16 [float32]")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}));
  extract->footer(
      "Example:\n  taugrid extract Llama-3.2-1B fine-tuned adapter --rank 32\n"
      "What is no matrix of a layer (norms, biases, heads) is written whole. OUT/merge.toml has each "
      "matrix'\n"
      "relative error, and is a recipe that makes the adapter again.");
  taugrid::program::DiffOptions diff_options;
  auto* diff = app.add_subcommand(
      "diff",
      "Compare two models of one architecture, or their task vectors: norms, cosines and signs, by kind of\n"
      "tensor, by layer, or tensor by tensor; read block by block, on the host, in one process.");
  diff->add_option("a", diff_options.a, "The folder of a model")->required();
  diff->add_option("b", diff_options.b, "The folder of another")->required();
  diff->add_option("--base", diff_options.base,
                   "The folder of θ0: compare the task vectors a − θ0 and b − θ0 in place of the models");
  diff->add_option("--by", diff_options.by,
                   "Rows of the table: kind (names without numbers), layer or tensor [kind]")
      ->check(CLI::IsMember({"kind", "layer", "tensor"}));
  diff->add_option("--json", diff_options.json, "Write every tensor's figures to this file");
  diff->footer(
      "Example:\n  taugrid diff cars svhn --base clip-vit-base-patch32 --by layer\n"
      "‖b−a‖/‖a‖ is 0 for equal models and 1.41 for unrelated ones; opposed % counts numbers with other "
      "signs,\n"
      "‖a‖/‖θ0‖ is some per cent for a fine-tuned model, and 1.41 where the base is another one.");
  auto* keys = app.add_subcommand(
      "keys", "List every section and key of an experiment file, with type, range, default and meaning");
  bool markdown = false, recipe_keys = false;
  keys->add_flag("--markdown", markdown, "As docs/experiment.md and docs/merge.md have them");
  keys->add_flag("--recipe", recipe_keys, "Those of a recipe for taugrid merge");
  auto* results =
      app.add_subcommand("results", "List every path of results.h5, with dimensions, type, unit and meaning");
  bool results_markdown = false, results_json = false;
  results->add_flag("--markdown", results_markdown, "As docs/results.md has them");
  results->add_flag("--json", results_json, "For programs");
  auto* info = app.add_subcommand("info", "Print versions, devices and features");

  // CLI11 would say that the argument was not expected.
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands([](CLI::App*) { return true; }))
    known.push_back(command->get_name());
  if (argc > 1 && argv[1][0] != '-' && std::find(known.begin(), known.end(), argv[1]) == known.end()) {
    const auto close = taugrid::config::nearest(argv[1], known);
    throw taugrid::InputError("there is no command " + taugrid::store::quoted(argv[1]) +
                              (close.empty() ? "" : "; did you mean " + close + "?") +
                              "; see taugrid --help");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return speaks() ? app.exit(error) : 0;
    if (speaks())
      std::cerr << "taugrid: error: " << taugrid::as_line(error.what() + std::string("; see taugrid --help"))
                << "\n";
    return static_cast<int>(taugrid::ExitCode::bad_input);
  }
  for (int i = 0; i < argc; ++i) options.command_line += (i == 0 ? "" : " ") + std::string(argv[i]);

  if (*bench || *verify)
    setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);  // one core is the unit of a benchmark
  const auto backend = taugrid::weights::backend();
  const auto& device = *bench    ? bench_options.device
                       : *verify ? verify_options.device
                       : *plan   ? plan_options.device
                                 : options.device;
  if (backend.device != backend.host && device != "cpu" && !*info && !*keys && !*results && !*merge &&
      !*diff && !*extract && !options.dry_run)
    taugrid::comm::mpi_takes_gpu_memory();  // this Kokkos starts CUDA
  const Kokkos::ScopeGuard kokkos;          // its own parser would take our --device
  if (*bench) return taugrid::bench::run(argc, argv, bench_options);
  if (*verify) return taugrid::bench::verify(argc, argv, verify_options);
  if (*plan) return taugrid::program::plan(argc, argv, plan_options);
  if (*info) return taugrid::program::info();
  if (*keys) return speaks() ? taugrid::program::keys(markdown, recipe_keys) : 0;
  if (*results) return speaks() ? taugrid::program::results(results_markdown, results_json) : 0;
  if (*merge && only_check) return speaks() ? taugrid::program::check_merge(merge_options.recipe, merge_options.out) : 0;
  if (*merge && !merge_options.plan.empty()) return speaks() ? taugrid::program::plan_merge(merge_options) : 0;
  if (*merge) return taugrid::program::merge(argc, argv, merge_options);
  if (*extract) return taugrid::program::extract(argc, argv, extract_options);
  if (*diff) return speaks() ? taugrid::program::diff(diff_options) : 0;
  if (options.dry_run) return speaks() ? taugrid::program::dry_run(options) : 0;
  if (*timeline) return taugrid::program::timeline(argc, argv, options);
  return taugrid::program::run(argc, argv, options);
}

/// Ends the process, once all that it printed has left it. What lives as long as the process is not taken apart: of a
/// command that only prints, taking apart LibTorch's lists of operators was a third.
[[noreturn]] void leave(int code) {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;  // std::cout writes there, too
  if (lost && code == 0) {
    std::fprintf(stderr, "taugrid: cannot write to standard output: %s\n", std::strerror(errno));
    code = static_cast<int>(taugrid::ExitCode::failed);
  }
  std::fflush(nullptr);  // the logs' too
  std::quick_exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on files' size is an error of write(), told in one line
  taugrid::machine::keep_and_widen_memory();
  try {
    leave(start(argc, argv));
  } catch (const taugrid::InputError& error) {
    if (speaks()) std::fprintf(stderr, "taugrid: error: %s\n", error.what());
    leave(static_cast<int>(taugrid::ExitCode::bad_input));
  } catch (const std::exception& error) {  // before MPI is up: afterwards, run_guarded has the word
    std::fprintf(stderr, "taugrid: cannot start: %s\n", taugrid::as_line(error.what()).c_str());
  }
  leave(static_cast<int>(taugrid::ExitCode::failed));
}
