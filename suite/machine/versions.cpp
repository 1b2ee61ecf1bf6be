// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/machine/versions.hpp"

#include <ATen/Version.h>
#include <H5public.h>
#include <mpi.h>
#include <torch/version.h>

#include "kernels/weights/backend.hpp"
#include "suite/comm/nccl.hpp"
#include "taugrid_version.hpp"

namespace taugrid::machine {

std::vector<std::pair<std::string, std::string>> versions() {
  std::vector<std::pair<std::string, std::string>> all = {{"taugrid", version},
                                                          {"git_revision", git_revision},
                                                          {"compiler", compiler},
                                                          {"build_type", build_type},
                                                          {"libtorch", TORCH_VERSION}};
  const auto triple = [](int a, int b, int c) {
    return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c);
  };
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  all.emplace_back("hdf5_compiled", triple(H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE));
  all.emplace_back("hdf5_loaded",
                   triple(static_cast<int>(major), static_cast<int>(minor), static_cast<int>(release)));
  all.emplace_back("mpi_compiled", std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION));
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string loaded(text, static_cast<std::size_t>(length));
  all.emplace_back("mpi_loaded", loaded.substr(0, loaded.find(',')));
  const auto backend = weights::backend();
  all.emplace_back("kokkos", backend.kokkos);
  all.emplace_back("kokkos_execution_space", backend.device);
  all.emplace_back("cpu_capability", at::get_cpu_capability());
  if (const auto nccl = comm::nccl_version(); !nccl.empty()) all.emplace_back("nccl_loaded", nccl);
  return all;
}

}  // namespace taugrid::machine
