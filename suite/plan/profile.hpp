// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A machine as plans see it: how fast it does each kind of work, and what units took that it has done.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace taugrid::plan {

/// A call takes call_seconds + flops / flops_per_second.
struct Rate {
  double call_seconds = 0, flops_per_second = 1;
};

/// Seconds of units that a run has taken.
struct Trace {
  std::map<std::string, double> seconds;  ///< by key
  int ranks_per_host = 1;                 ///< at work meanwhile, on the fullest host
  int groups = 1, ranks_per_unit = 1;     ///< that the units were shared out to, and how many ranks each had
  std::string config;                     ///< the run's resolved configuration; empty: not known
};

/// What several ranks measured together with taugrid bench.
struct Together {
  /// Seconds of a call by its bytes, ascending, of so many ranks.
  using Calls = std::map<double, double>;
  int ranks = 0;        ///< 0: nothing was measured
  Calls sums, gathers;  ///< bytes of a gather: what a rank has in the end
  double write_bytes_per_second = 0,
         read_bytes_per_second = 0;     ///< checkpoints of all ranks; 0: not measured
  double results_bytes_per_second = 0;  ///< results.h5, likewise

  /// Seconds of a call of `bytes` among `ranks`: between those measured along a line, beyond the largest at
  /// its rate. A ring's part of the bytes that cross each link, 2(n − 1)/n of sums and (n − 1)/n of gathers,
  /// takes another number of ranks into account.
  double sum_seconds(double bytes, int ranks) const;
  double gather_seconds(double bytes, int ranks) const;
};

struct Profile {
  std::string host, processor;
  std::string device =
      "cpu";  ///< of a rank; of GPUs, cores are those that their ranks' threads take, and memory theirs
  int cores = 1;
  double memory_bytes = 0;
  int threads_per_rank = 1;
  std::int64_t model_parameters = 0;  ///< of the model that the rates were measured with
  std::map<std::string, Rate> rates;  ///< by kind of work
  double crowding = 1;                ///< Host::crowding
  double start_seconds = 0;           ///< of a process, without what it reads
  double unit_seconds = 0;            ///< of a unit, besides its work: asked for, committed
  double open_seconds = 0;            ///< of reading a small unit
  double read_bytes_per_second = 1, write_bytes_per_second = 1;
  double process_bytes = 0;                     ///< of a process that holds nothing yet
  std::map<std::string, std::string> versions;  ///< of the program and its libraries
  Together together;
  Trace trace;  ///< empty: none
};

/// Throws InputError, one line: FILE: KEY: what was expected.
Profile read_profile(const std::filesystem::path& path);
void write_profile(const std::filesystem::path& path, const Profile& profile);

/// The cases network/… and storage/… of a file of `taugrid bench --json`, of two ranks or more on
/// `processor`. Throws InputError.
Together read_bench(const std::filesystem::path& path, const std::string& processor);
/// The same, of which only storage/checkpoint_write and _read must be there, on any processor and by any
/// number of ranks.
Together read_storage(const std::filesystem::path& path);

/// The table /units of a finished run's results.h5, and RUN/config.toml where it is there. Throws InputError.
Trace read_trace(const std::filesystem::path& results);

/// Throws InputError naming what differs where the trace is of another experiment than `config`; names and
/// folders aside.
void require_same_experiment(const Trace& trace, const std::string& config, const std::string& where);

}  // namespace taugrid::plan
