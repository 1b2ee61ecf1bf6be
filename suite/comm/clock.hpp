// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace taugrid::comm {

/// Seconds on the steady clock.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds on the steady clock without those in which this process stood still (SIGSTOP, Slurm's SUSPEND): limits on
/// waits are counted in them. Where no Runtime watches the time, the same as steady_seconds().
double running_seconds();

}  // namespace taugrid::comm
