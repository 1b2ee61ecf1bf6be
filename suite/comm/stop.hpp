// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The wish to stop early: SIGTERM, SIGUSR1, or the time limit, seen by all ranks.
//
// Facts about signals, tried with Open MPI 4.1.4:
// - mpirun forwards SIGUSR1 to every rank and nothing else happens: the clean way to stop. The shell sees 75.
// - mpirun that gets SIGTERM (or SIGINT) waits 1 s, sends SIGTERM to the ranks, and SIGKILL 1 s later; it
// exits
//   with 1 whatever the ranks return. Committed units stay; a unit that checks often enough saves its
//   checkpoint.
//   `--mca odls_base_sigkill_timeout SECONDS` lengthens both waits.
// - srun passes SIGTERM and SIGUSR1 straight to the ranks: `#SBATCH --signal=USR1@120` stops 2 min before the
// limit.
// - mpirun's own notice about non-zero exit codes is silenced by `mpirun -q`.
#pragma once

#include <atomic>
#include <string>

namespace taugrid::comm {

class Communicator;

/// A flag that is raised once and stays. Cheap to read: one atomic load.
class StopRequest {
 public:
  /// A flag of its own, which this process alone sees (for tests). Runtime's flag is seen by all ranks.
  StopRequest() = default;
  /// A flag elsewhere, such as in memory that the host's ranks share.
  explicit StopRequest(std::atomic<int>* flag) : flag_(flag) {}
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// Whether a stop is wanted, as far as this rank knows: ranks may learn of it up to 0.3 s apart.
  bool requested() const noexcept { return flag_->load(std::memory_order_relaxed) != 0; }
  /// The same answer on every rank of `group`: true where any knows. Collective; in a group of several ranks
  /// use this one before a step with collectives, or some leave while the others wait for them.
  bool requested(const Communicator& group) const;
  /// Throws Interrupted("WHERE: stopped by REASON") on all ranks of `group` where requested(group).
  void throw_if_requested(const Communicator& group, const std::string& where) const;

  /// `reason`: a signal's number, or one of these. Async-signal-safe; the first reason stays.
  static constexpr int time_limit = 1000;
  static constexpr int wanted = 1001;
  void request(int reason = wanted) const noexcept;
  /// "SIGUSR1", "the time limit", …; empty where none.
  std::string reason() const;
  int code() const noexcept { return flag_->load(); }

 private:
  std::atomic<int> code_{0};
  std::atomic<int>* flag_ = &code_;
};

}  // namespace taugrid::comm
