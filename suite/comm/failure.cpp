// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/failure.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>

#include "suite/comm/detail/parts.hpp"
#include "suite/comm/runtime.hpp"
#include "suite/error.hpp"

namespace taugrid::comm {

namespace {

using namespace std::chrono_literals;

struct Outcome {
  int code = 0;
  std::string line;
};

std::string failure_line(const Runtime& runtime, const std::string& message) {
  const auto& mine = runtime.mine();
  return fmt::format("taugrid: rank {} ({}) failed in {}: {}", mine.rank, mine.host, current_operation(),
                     as_line(message));
}

Outcome attempt(Runtime& runtime, const std::function<void()>& work) {
  const auto failed = [&](const char* message) {
    return Outcome{static_cast<int>(ExitCode::failed), failure_line(runtime, message)};
  };
  try {
    work();
    return {};
  } catch (const InputError& error) {
    return {static_cast<int>(ExitCode::bad_input), fmt::format("taugrid: error: {}", error.what())};
  } catch (const Interrupted& stopped) {
    return {static_cast<int>(ExitCode::resumable), fmt::format("taugrid: stopped: {}", stopped.what())};
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("an exception of unknown type");
  }
}

// How long others may take to end in the same way, before they are ended. A limit on stops, where there is
// one, ends them with a line that names them.
std::chrono::duration<double> patience(int code, const detail::Monitor& monitor) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::bad_input:
      return 1s;
    case ExitCode::resumable:
      if (!monitor.limits_stops()) return 30s;
      [[fallthrough]];
    default:
      return std::chrono::duration<double>::max();
  }
}

}  // namespace

int run_guarded(Runtime& runtime, const std::function<void()>& work) {
  auto& self = runtime.parts();
  const auto mine = attempt(runtime, work);
  if (mine.code == static_cast<int>(ExitCode::failed)) {
    self.monitor->end_all(mine.line, mine.code);
  }

  const Waiting waiting("wait for the other ranks to end");
  std::vector<int> codes(runtime.world().size());
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&mine.code, 1, MPI_INT, codes.data(), 1, MPI_INT, self.control, &request),
            "MPI_Iallgather");
  const double began = running_seconds();
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0 && running_seconds() - began > patience(mine.code, *self.monitor).count()) {
      self.monitor->end_all(mine.line, mine.code);
    }
    if (done == 0) {
      std::this_thread::sleep_for(1ms);
    }
  }
  // One whose patience ended just before this was complete ends all and never comes here: who speaks below is
  // then ended before it does, and the line is out once.
  runtime.world().barrier("agreement on the end");

  const auto bad = static_cast<int>(ExitCode::bad_input);
  const auto resumable = static_cast<int>(ExitCode::resumable);
  const auto has = [&](int code) { return std::find(codes.begin(), codes.end(), code) != codes.end(); };
  const int code = has(bad) ? bad : has(resumable) ? resumable : 0;
  const auto speaker = std::find(codes.begin(), codes.end(), code) - codes.begin();
  if (code != 0 && speaker == runtime.world().rank()) {
    // Where a launcher failed to connect the ranks, each believes to be alone, and one is enough.
    const char* task = std::getenv("SLURM_PROCID");
    if (runtime.world().size() > 1 || task == nullptr || std::atoi(task) == 0) {
      const auto text = mine.line + "\n";
      [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
    }
  }
  // mpirun kills the others when the first leaves with a code other than 0: not before the line is out.
  runtime.world().barrier("end of the run");
  return code;
}

void fail_now(Runtime& runtime, const std::string& message) {
  runtime.parts().monitor->end_all(failure_line(runtime, message), static_cast<int>(ExitCode::failed));
}

}  // namespace taugrid::comm
