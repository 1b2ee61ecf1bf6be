// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Whether MPI takes device memory is tried and not asked for: builds claim it and fail, or the other way
// round. An MPI that cannot reads a device's address as one of the host and dies, so the trial is a process
// of its own.
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "suite/comm/detail/driver.hpp"

extern char** environ;

namespace taugrid::comm::detail {

namespace {

// Else the child would take the parent's place in the job.
void forget_launcher() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    for (const char* prefix : {"OMPI_COMM_WORLD_", "OMPI_UNIVERSE", "OMPI_APP", "OMPI_FIRST", "OMPI_NUM_APP",
                               "OMPI_MCA_ess", "OMPI_MCA_orte", "PMIX_", "PMI_", "SLURM_"}) {
      if (name.rfind(prefix, 0) == 0) names.push_back(name);
    }
  }
  for (const auto& name : names) unsetenv(name.c_str());
}

bool try_it() {
  constexpr int bytes = 1 << 16;
  const auto& cuda = driver();
  if (cuda.gpus() == 0) return false;
  cuda.use(0);
  std::vector<char> sent(bytes), got(bytes, 0);
  for (int i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 7 + 1);
  const auto from = cuda.allocate(bytes), to = cuda.allocate(bytes);
  if (from == 0 || to == 0 || !cuda.to_device(from, sent.data(), bytes)) return false;
  MPI_Init(nullptr, nullptr);
  const int code =
      MPI_Sendrecv(reinterpret_cast<void*>(from), bytes, MPI_BYTE, 0, 1, reinterpret_cast<void*>(to), bytes,
                   MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  const bool arrived = code == MPI_SUCCESS && cuda.to_host(got.data(), to, bytes) && got == sent;
  MPI_Finalize();  // else its folder of files stays
  return arrived;
}

}  // namespace

bool mpi_takes_device_memory() {
  using namespace std::chrono_literals;
  if (!driver().is_loaded()) return false;
  const pid_t child = fork();
  if (child == 0) {
    forget_launcher();
    for (const int death : {SIGSEGV, SIGBUS, SIGABRT, SIGTERM}) signal(death, SIG_DFL);
    const int silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(silent, STDERR_FILENO);
    dup2(silent, STDOUT_FILENO);
    bool works = false;
    try {
      works = try_it();
    } catch (...) {  // whatever it is, this process is not the program, and must not go on as it
    }
    _exit(works ? 0 : 1);
  }
  int status = -1;
  for (int i = 0; child > 0 && i < 3000; ++i) {
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(10ms);
  }
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return false;
}

}  // namespace taugrid::comm::detail
