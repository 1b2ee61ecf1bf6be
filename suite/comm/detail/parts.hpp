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
#include "suite/comm/clock.hpp"
#include "suite/comm/communicator.hpp"
#include "suite/comm/rank_info.hpp"
#include "suite/comm/stop.hpp"

namespace taugrid::comm::detail {

struct Parts {
  struct Start {
    Start(int& argc, char**& argv, const std::string& wanted_device);
    ChosenDevice device;
    bool started = false;  ///< by us, so ended by us
    bool launched_by_mpirun = false;
  };
  Parts(int& argc, char**& argv, const std::string& wanted_device);

  double began = steady_seconds();
  Start start;
  Communicator world;
  MPI_Comm control = MPI_COMM_NULL;
  int local_rank = 0;
  Slot* slot = nullptr;
  std::unique_ptr<StopRequest> stop;
  struct sigaction old_term {};
  struct sigaction old_usr1 {};
  std::vector<RankInfo> ranks;
  int ranks_on_device = 1;  ///< of this rank
  std::vector<std::string> warnings;
  std::unique_ptr<Monitor> monitor;
};

}  // namespace taugrid::comm::detail
