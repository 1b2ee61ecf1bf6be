// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/stop.hpp"

#include <fmt/format.h>

#include <csignal>

#include "suite/comm/communicator.hpp"
#include "suite/error.hpp"

namespace taugrid::comm {

void StopRequest::request(int reason) const noexcept {
  int none = 0;
  flag_->compare_exchange_strong(none, reason);
}

bool StopRequest::requested(const Communicator& group) const {
  return group.size() == 1 ? requested() : !group.agree(!requested(), "look for a stop request");
}

void StopRequest::throw_if_requested(const Communicator& group, const std::string& where) const {
  if (requested(group)) {
    throw Interrupted(fmt::format("{}: stopped by {}", where, requested() ? reason() : "another rank"));
  }
}

std::string StopRequest::reason() const {
  switch (const int code = flag_->load()) {
    case 0:
      return "";
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    case time_limit:
      return "the time limit";
    case wanted:
      return "request";
    default:
      return fmt::format("signal {}", code);
  }
}

}  // namespace taugrid::comm
