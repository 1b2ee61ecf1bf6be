// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/program/provenance.hpp"

#include <cstdlib>
#include <ctime>

namespace taugrid::program {

std::vector<std::pair<std::string, std::string>> launcher_variables() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto* name :
       {"SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS",
        "SLURM_CPUS_PER_TASK", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT", "OMPI_COMM_WORLD_SIZE",
        "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"}) {
    if (const char* value = std::getenv(name)) all.emplace_back(name, value);
  }
  return all;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace taugrid::program
