// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A short measurement of this machine: each kind of work that the units have, with the experiment's own model
// and sizes, and what starting, reading and committing cost.
#pragma once

#include <functional>

#include "suite/comm/runtime.hpp"
#include "suite/experiments/study.hpp"
#include "suite/plan/profile.hpp"
#include "suite/schedule/work_unit.hpp"

namespace taugrid::plan {

/// One call of a kind of work, made ready.
struct Call {
  std::function<void()> run;
  double flops = 0;
};

/// Random inputs, the study's model at random θ: values do not matter for speed. Throws std::logic_error for
/// a kind without a measurement.
Call make_call(const experiments::Study& study, const std::string& kind, std::int64_t inputs,
               std::int64_t width);

/// Of the kinds in `units`; the threads are those in force. Each takes about a second at most, where a call
/// of a few inputs takes less. Only the machine's own figures and no rates where `units` is empty.
Profile calibrate(const comm::Runtime& runtime, const experiments::Study& study,
                  const std::vector<const schedule::WorkUnit*>& units);

/// Bytes of the tasks' labels and of θ0, as each rank holds them, pictures being mapped; of what is missing,
/// none.
double study_bytes(const experiments::Study& study);

/// Since this process began.
double process_seconds();

}  // namespace taugrid::plan
