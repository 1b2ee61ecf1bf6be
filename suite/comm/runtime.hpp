// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// MPI from start to end, and who runs where. One object, made first in main.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/comm/operation.hpp"
#include "suite/comm/rank_info.hpp"
#include "suite/comm/stop.hpp"

namespace taugrid::comm {

namespace detail {
struct Parts;
}

/// Starts MPI (thread-multiple; skipped where it runs already) and a thread that watches the other ranks and
/// carries failure and stop messages; catches SIGTERM and SIGUSR1. Members marked collective are called by
/// all ranks.
class Runtime {
 public:
  struct Options {
    int threads = 1;             ///< of torch, each rank
    int ranks_per_host = 0;      ///< >0: treat every so many ranks as a host of their own (tests)
    std::string device = "cpu";  ///< as choose_device() takes it
  };
  /// Throws std::runtime_error where MPI gives no MPI_THREAD_MULTIPLE, InputError as choose_device().
  Runtime(int& argc, char**& argv, Options options);
  Runtime(int& argc, char**& argv) : Runtime(argc, argv, Options{}) {}
  /// Collective, ends MPI if this object started it.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Communicator& world() const;
  const StopRequest& stop() const;
  /// Requests a stop once `limit` has passed since this object was made.
  void set_time_limit(std::chrono::duration<double> limit);
  /// Ends all ranks, with a line that names the operation and the missing ranks, when a collective of any
  /// communicator takes longer; waits that are called patient have no limit. Time in which the job stood
  /// still (SIGSTOP, Slurm's SUSPEND) does not count, here and below.
  void limit_collectives(std::chrono::duration<double> limit);
  /// Ends all ranks with exit code 75, and a line that names those that came to no safe point, when a stop
  /// was requested longer ago; without a limit, they are waited for.
  void limit_stops(std::chrono::duration<double> limit);
  /// The device that this rank computes on.
  at::Device device() const;
  /// Seconds since this object was made.
  double elapsed() const;

  /// Collective: sets torch's threads and gathers ranks() anew.
  void set_threads(int threads);
  const std::vector<RankInfo>& ranks() const;
  /// The number of ranks that share this rank's host.
  int ranks_on_host() const;
  /// The first of them.
  int first_on_host() const;
  const RankInfo& mine() const;
  /// A table, one line a rank.
  std::string banner() const;
  /// One line for each host with more threads than cores, each GPU that ranks share or that cannot be used,
  /// and cores of a Slurm job that stay idle.
  std::vector<std::string> warnings() const;
  /// Prints them on rank 0's stderr.
  void print_warnings() const;
  /// Throws InputError if MPI connects another number of ranks than the launcher was asked for: without PMIx
  /// it silently starts N programs of one rank. Not for commands that run on one rank, such as `taugrid
  /// info`.
  void check_launcher() const;

  detail::Parts& parts() const { return *parts_; }

 private:
  std::unique_ptr<detail::Parts> parts_;
};

}  // namespace taugrid::comm
