// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What happens when a rank fails: all ranks stop within seconds, one message says which and at what.
//
// A failing rank claims the right to speak (an atomic flag of its host; of all hosts through rank 0), prints,
// and, once all hosts know that it did, calls MPI_Abort. A rank that dies is noticed by the others of its
// host, which wait on its process, read its last operation from shared memory, and do the same. mpirun adds
// notices of its own (`-q` silences them). The shell sees 1, 2 or 75 as below; 137 or 1 where a rank was
// killed, as mpirun and MPI_Abort race. A rank alone on its host has no neighbour: mpirun or srun reports its
// death.
#pragma once

#include <functional>
#include <string>

#include "suite/comm/runtime.hpp"

namespace taugrid::comm {

/// Runs `work` on every rank and returns main's exit code, the same on all: 0; 2 after InputError ("taugrid:
/// error: …" from the lowest rank that has it); 75 after Interrupted ("taugrid: stopped: …"). Any other
/// exception prints "taugrid: rank R (HOST) failed in OPERATION: …" and ends all ranks with 1. Exactly one
/// such line is printed. InputError on some ranks while the others go on working: these are ended after a
/// short wait. All ranks call it; `work` must not throw away the runtime.
int run_guarded(Runtime& runtime, const std::function<void()>& work);

/// Ends all ranks with exit code 1 and this message, as if work had thrown it. For threads that run_guarded
/// does not see; any thread.
[[noreturn]] void fail_now(Runtime& runtime, const std::string& message);

}  // namespace taugrid::comm
