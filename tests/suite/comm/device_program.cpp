// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Takes a GPU as a rank does before MPI ("choose") or as far as LibTorch ("auto": says which, and why), tries
// MPI with its memory ("try": exit code 0 where that works), or loads LibTorch's CUDA part and says which
// NCCL is there then ("nccl").
#include <mpi.h>

#include <cstdio>
#include <cstring>

#include "suite/comm/detail/driver.hpp"
#include "suite/comm/device.hpp"
#include "suite/comm/nccl.hpp"

using namespace taugrid::comm;

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "nccl") == 0) {
    std::printf("before: %s\n", nccl_version().c_str());
    const auto problem = taugrid::comm::detail::load_cuda_part();
    std::printf("%s\n", problem.empty() ? ("NCCL " + nccl_version()).c_str() : problem.c_str());
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "auto") == 0) {
    const auto chosen = choose_device("auto");
    std::printf("%s: %s\n", chosen.name.c_str(), chosen.warning.c_str());
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "try") == 0)
    return taugrid::comm::detail::mpi_takes_device_memory() ? 0 : 1;
  const int gpus = taugrid::comm::detail::driver().gpus();
  if (argc < 2 || gpus == 0) return 3;
  taugrid::comm::detail::driver().use(launcher_local_rank().value_or(0) % gpus);
  MPI_Init(&argc, &argv);
  MPI_Finalize();
  return 0;
}
