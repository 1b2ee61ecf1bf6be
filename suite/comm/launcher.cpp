// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/launcher.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "suite/error.hpp"

namespace taugrid::comm {

std::optional<std::string> launched_rank() {
  for (const auto* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return std::nullopt;
}

// Open MPI would end each process with a page of text of its own.
void require_connected() {
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  if (tasks == nullptr || std::atoi(tasks) < 2 || launched_rank()) return;
  throw InputError(
      fmt::format("srun started {} tasks and connects none of them (--mpi=none?): start with `srun "
                  "--mpi=pmix`, or what `srun --mpi=list` offers, or mpirun",
                  tasks));
}

}  // namespace taugrid::comm
