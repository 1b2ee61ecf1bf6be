// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The program's commands. Each returns the exit code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace taugrid::program {

struct RunOptions {
  std::filesystem::path experiment;
  std::filesystem::path run_dir;       ///< empty: runs/NAME
  std::vector<std::string> overrides;  ///< key=value
  std::optional<double> time_limit_minutes;
  std::string device = "auto";
  double collective_limit = 600;  ///< seconds
  double stop_within = 240;       ///< seconds
  bool mixed = false;  ///< units of other devices, revisions, LibTorches and processors may be in the run
  bool dry_run = false;
  std::filesystem::path json;  ///< of the timeline; empty: none
  std::string command_line;
};

struct PlanOptions {
  std::filesystem::path experiment;
  std::vector<std::string> overrides;  ///< key=value
  std::vector<int> ranks;
  int ranks_per_host = 0;              ///< 0: as many as the host has cores for
  std::filesystem::path profile;       ///< a profile or a run's results.h5; empty: measured now
  std::filesystem::path bench;         ///< of several ranks, JSON; empty: none
  std::filesystem::path save_profile;  ///< empty: not kept
  std::filesystem::path json;          ///< empty: none
  std::string device = "auto";
};

/// Computes what is missing of a run folder and writes its results.h5. Collective: every rank of the launch.
int run(int& argc, char**& argv, const RunOptions& options);

/// Checks the experiment, lists its inputs and its work, and computes nothing. Exit code 2 where inputs are
/// missing.
int dry_run(const RunOptions& options);

/// Predicts time, memory and storage of a run on so many ranks. One process. Exit code 2 as of dry_run().
int plan(int& argc, char**& argv, const PlanOptions& options);

/// Prints where the time of one training step goes, of the first regime and task. Collective, on the CPU.
int timeline(int& argc, char**& argv, const RunOptions& options);

struct MergeOptions {
  std::filesystem::path recipe;
  std::filesystem::path out;    ///< empty: the recipe's
  std::vector<int> plan;        ///< ranks for which to print what they would do; empty: merge
  std::filesystem::path bench;  ///< of the file system, JSON; empty: none
};

/// Merges checkpoints as the recipe says, and prints what it took. Collective: every rank of the launch.
int merge(int& argc, char**& argv, const MergeOptions& options);

/// Prints what each of so many ranks would read, write and compute. One process.
int plan_merge(const MergeOptions& options);

/// Looks at what a recipe would merge, and prints whether the models belong together and how far each is from
/// its base. One process. Exit code 2 where a merge would be wrong.
int check_merge(const std::filesystem::path& recipe, const std::filesystem::path& out);

struct ExtractOptions {
  std::filesystem::path base, model, out;
  std::int64_t rank = 0;  ///< 0: as many as the share asks for
  double share = 1;
  std::string dtype = "float32";
};

/// Writes the difference of a model from its base as a LoRA adapter. Collective: every rank of the launch.
int extract(int& argc, char**& argv, const ExtractOptions& options);

struct DiffOptions {
  std::filesystem::path a, b;
  std::filesystem::path base;  ///< empty: the models themselves are compared
  std::string by = "kind";     ///< tensor, kind or layer
  std::filesystem::path json;  ///< empty: none
};

/// Prints how two models differ, by tensor, kind or layer. One process.
int diff(const DiffOptions& options);

/// Prints every section and key of an experiment file, or of a recipe for merges, with what may stand there,
/// what does otherwise, and what it is for: as the code reads them.
int keys(bool markdown, bool recipe);

/// Prints every path of results.h5, with its dimensions, type, unit and meaning: as the code declares them.
int results(bool markdown, bool json);

/// Prints versions, devices and features of this build.
int info();

}  // namespace taugrid::program
