// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/detail/monitor.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>

#include "suite/comm/stop.hpp"

namespace taugrid::comm::detail {

using namespace std::chrono_literals;

namespace {

enum Tag { claim_tag = 1, verdict_tag, stop_tag, silence_tag };

// A killed child stays a zombie until the launcher reaps it, and kill() finds zombies alive.
bool alive(int pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) {
    return false;
  }
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');  // the program's name may hold anything
  return end == std::string::npos || end + 2 >= text.size() || (text[end + 2] != 'Z' && text[end + 2] != 'X');
}

}  // namespace

Monitor::Monitor(Place place) : place_(std::move(place)) {
  MPI_Comm_rank(place_.control, &rank_);
  leader_ = place_.local_rank == 0;
  thread_ = std::jthread([this](const std::stop_token& token) { watch(token); });
}

double Monitor::clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Monitor::watch(const std::stop_token& token) {
  while (!token.stop_requested()) {
    look_at_neighbour();
    if (rank_ == 0 && clock() >= deadline_) {
      StopRequest(&place_.board->stop).request(StopRequest::time_limit);
    }
    if (leader_) {
      answer();
      pass_on();
    }
    std::this_thread::sleep_for(100ms);
  }
}

// In a ring each rank is watched by one other, and one look is enough for each, however many share the host.
void Monitor::look_at_neighbour() {
  if (place_.local_size < 2) {
    return;
  }
  const auto& mine = place_.board->slots[place_.local_rank];
  const auto& next = place_.board->slots[(place_.local_rank + 1) % place_.local_size];
  // In containers with process numbers of their own, another rank's number means nothing here.
  if (next.left || next.pid_namespace != mine.pid_namespace || alive(next.pid) || next.left) {
    return;
  }
  end_all(fmt::format("taugrid: rank {} ({}, process {}) died while doing: {}", next.rank.load(), place_.host,
                      next.pid.load(), next.operation()),
          1);
}

void Monitor::tell(int to, int tag, const int& message) {
  // A few bytes are on their way when this returns: no wait for a rank that may be gone.
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&message, 1, MPI_INT, to, tag, place_.control, &request);
  MPI_Request_free(&request);
}

void Monitor::tell_other_hosts(int tag, const int& message) {
  for (const int leader : std::set<int>(place_.leaders.begin(), place_.leaders.end())) {
    if (leader != 0) {
      tell(leader, tag, message);
    }
  }
}

void Monitor::pass_on() {
  if (const int reason = place_.board->stop; reason != 0 && stop_told_ == 0) {
    stop_told_ = reason;
    rank_ == 0 ? tell_other_hosts(stop_tag, stop_told_) : tell(0, stop_tag, stop_told_);
  }
  if (rank_ == 0 && place_.board->claimed != 0 && silence_told_ == 0) {
    silence_told_ = 1;
    tell_other_hosts(silence_tag, silence_told_);
  }
}

bool Monitor::take(int tag, int& message, int& from) {
  MPI_Status status;
  int found = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, place_.control, &found, &status);
  if (found != 0) {
    from = status.MPI_SOURCE;
    MPI_Recv(&message, 1, MPI_INT, from, tag, place_.control, MPI_STATUS_IGNORE);
  }
  return found != 0;
}

void Monitor::answer() {
  int message = 0;
  int from = 0;
  while (take(stop_tag, message, from)) {
    StopRequest(&place_.board->stop).request(message);
  }
  while (take(silence_tag, message, from)) {
    place_.board->claim();
  }
  while (rank_ == 0 && take(claim_tag, message, from)) {
    const int first = place_.board->claim() ? 1 : 0;
    MPI_Send(&first, 1, MPI_INT, from, verdict_tag, place_.control);
  }
}

bool Monitor::claim() {
  if (!place_.board->claim()) {
    return false;
  }
  if (place_.leaders[rank_] == 0) {
    return true;  // this host's flag is the one for all
  }
  int first = 1;
  MPI_Request requests[2];
  MPI_Irecv(&first, 1, MPI_INT, 0, verdict_tag, place_.control, &requests[0]);
  MPI_Isend(&rank_, 1, MPI_INT, 0, claim_tag, place_.control, &requests[1]);
  for (int i = 0; i < 100; ++i) {
    int done = 0;
    MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    if (done != 0) {
      return first != 0;
    }
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

void Monitor::end_all(const std::string& line, int code) {
  if (claim()) {
    const auto text = line + "\n";
    // One write: lines of several ranks do not mix.
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
    // Time for the launcher to read it; and for rank 0 to silence other hosts, where there are any.
    const bool one_host = std::set<int>(place_.leaders.begin(), place_.leaders.end()).size() == 1;
    std::this_thread::sleep_for(one_host ? 50ms : 300ms);
  } else {
    std::this_thread::sleep_for(10s);  // the one who speaks ends us
  }
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace taugrid::comm::detail
