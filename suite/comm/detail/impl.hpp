// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Runtime's parts, for failure.cpp.
#pragma once

#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "suite/comm/detail/monitor.hpp"
#include "suite/comm/device.hpp"
#include "suite/comm/runtime.hpp"

namespace taugrid::comm {

struct Runtime::Impl {
  struct Start {
    Start(int& argc, char**& argv, const std::string& wanted_device);
    ChosenDevice device;
    bool started = false;  ///< by us, so ended by us
    bool launched_by_mpirun = false;
  };
  Impl(int& argc, char**& argv, const std::string& wanted_device);

  double began = detail::steady_seconds();
  Start start;
  Communicator world;
  MPI_Comm control = MPI_COMM_NULL;
  int local_rank = 0;
  detail::Slot* slot = nullptr;
  std::unique_ptr<StopRequest> stop;
  struct sigaction old_term {};
  struct sigaction old_usr1 {};
  std::vector<RankInfo> ranks;
  std::vector<std::string> warnings;
  std::unique_ptr<detail::Monitor> monitor;
};

}  // namespace taugrid::comm
