// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a work unit is predicted to take. `taugrid plan` turns it into seconds and bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "suite/comm/communicator.hpp"

namespace taugrid::schedule {

/// One call of a computation, made ready, and what it counts.
struct Rehearsal {
  std::function<void()> run;
  double flops = 0;
};

/// Kinds of work that ranks of a group do together, by numbers of float32: sums of what each has, and
/// gathers, of which all ranks' numbers count.
inline constexpr const char* sums_over_ranks = "exchange";
inline constexpr const char* gathers_of_ranks = "gather";

/// Equal calls of one computation, as the busiest rank of the unit's group makes them.
struct Work {
  std::string kind;  ///< whose rate is measured: "train/linear", "forward", …
  double calls = 0;
  std::int64_t inputs = 0;  ///< of one call: what it is measured with
  std::int64_t width = 0;   ///< likewise, where a kind has a second size: classes, rows of a Gram matrix
  double flops = 0;         ///< of one call
  /// Makes the unit's own computation ready at another size, on random inputs, for one rank `alone`.
  std::function<Rehearsal(const comm::Communicator& alone, std::int64_t inputs, std::int64_t width)> rehearse;

  bool is_exchange() const { return kind == sums_over_ranks || kind == gathers_of_ranks; }
};

struct Load {
  std::vector<Work> work;
  double flops = 0;                     ///< of all ranks of the group together
  double bytes_read = 0;                ///< checkpoints and others' units
  double bytes_stored = 0;              ///< its own file and its checkpoint
  int files_stored = 1;                 ///< likewise
  double working = 0;                   ///< bytes that a computation of it takes at most
  double held = 0;                      ///< bytes of files and edited models beside it
  std::map<std::string, double> keeps;  ///< bytes, by name, that a rank keeps for later units

  /// Bytes that a rank sums and gathers with the others of its group, as Communicator::exchanged_bytes()
  /// counts.
  double bytes_exchanged() const {
    double bytes = 0;
    for (const auto& each : work)
      if (each.is_exchange()) bytes += 4 * each.calls * static_cast<double>(each.inputs);
    return bytes;
  }
};

}  // namespace taugrid::schedule
