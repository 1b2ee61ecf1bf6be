// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the launcher has told this process in its environment, before MPI starts.
#pragma once

#include <optional>
#include <string>

namespace taugrid::comm {

/// This process's rank, as mpirun (Open MPI), PMIx or PMI (srun --mpi=pmi2, Hydra) name it; nothing where
/// none of them started it.
std::optional<std::string> launched_rank();

/// Throws InputError where srun started several tasks, and none of the above connects them: each would take
/// itself for the only one.
void require_connected();

}  // namespace taugrid::comm
