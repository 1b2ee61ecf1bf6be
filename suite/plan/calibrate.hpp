// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A short measurement of this machine: each kind of work that the units have, by the units' own computation with
// the experiment's model and sizes, and what starting, reading and committing cost.
#pragma once

#include "suite/comm/runtime.hpp"
#include "suite/study/study.hpp"
#include "suite/plan/profile.hpp"
#include "suite/schedule/work_unit.hpp"

namespace taugrid::plan {

/// Measures the kinds in `units`, with the threads in force. Each takes about a second at most, where a call
/// of a few inputs takes less. Only the machine's own figures and no rates where `units` is empty.
Profile calibrate(const comm::Runtime& runtime, const study::Study& study,
                  const std::vector<const schedule::WorkUnit*>& units);

/// Bytes of the tasks' labels and of θ0, as each rank holds them, pictures being mapped; of what is missing,
/// none.
double study_bytes(const study::Study& study);

/// Since this process began.
double process_seconds();

}  // namespace taugrid::plan
