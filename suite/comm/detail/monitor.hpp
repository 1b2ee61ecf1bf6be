// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A thread on each rank that notices dead ranks and collectives that hang, and carries claims and stop
// requests between hosts.
#pragma once

#include <mpi.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "suite/comm/detail/board.hpp"
#include "suite/comm/detail/collective.hpp"

namespace taugrid::comm::detail {

class Monitor {
 public:
  struct Place {
    MPI_Comm control;  ///< the monitors' own, over all ranks; outlives this object
    Board* board;      ///< this host's
    int local_rank;
    int local_size;
    std::vector<int> leaders;  ///< of each rank: the lowest rank on its host
    std::string host;
  };
  explicit Monitor(Place place);
  ~Monitor();

  /// Whether this rank may print the one failure message: true once a host, and once in all (unless rank 0
  /// gives no answer within 3 s). Any thread.
  bool claim();
  /// Prints `line` if nobody has yet, and ends all ranks with `code`.
  [[noreturn]] void end_all(const std::string& line, int code);
  /// Requests a stop at `seconds` on the steady clock.
  void stop_at(double seconds) { deadline_ = seconds; }
  /// Ends all ranks when a collective takes longer than so many seconds.
  void limit_collectives(double seconds) { limit_ = seconds; }
  /// Ends all ranks when they have not ended so many seconds after a stop request.
  void limit_stops(double seconds) { stop_limit_ = seconds; }
  bool limits_stops() const { return stop_limit_ < std::numeric_limits<double>::infinity(); }

 private:
  void watch(const std::stop_token& token);
  void meet_rank_0() const;
  void open_others();
  bool can_see(const Slot& other) const;
  void say_if_died(const Slot& other);
  void look_around();
  bool take_over() const;
  void look_for_hangs();
  void look_for_late_ranks();
  std::string late_ranks();
  [[noreturn]] void leave_all(const std::string& line, int code);
  void leave_if_told() const;
  std::string missing(const Entered& collective);
  struct Question {
    std::uint64_t group = 0, number = 0;
    int rank = 0;
  };
  struct Answer {
    int rank = -1;
    bool reached = false;
    bool waits = true;  ///< for others, or runs no longer
    char host[64] = {};
    char text[256] = {};
  };
  Answer answer_of(const Question& question) const;
  std::vector<Answer> ask(const std::vector<Question>& questions);
  void tell(int to, int tag, const int& message);  // which outlives the call
  void tell_other_hosts(int tag, const int& message);
  template <class Message>
  bool take(int tag, Message& message, int& from) const;
  void pause(std::chrono::milliseconds time);
  void pass_on();
  void hush();
  void wait_until_hushed();
  void wait_until_read();
  void answer();

  Place place_;
  int rank_ = 0;
  std::vector<pollfd> others_;  // of each slot of this host: its process, < 0 where it is not watched so
  bool leader_ = false;
  std::vector<int> other_leaders_;  // of the hosts that are not rank 0's
  int stop_told_ = 0;
  int verdict_ = 0;                   // of this rank's claim: whether it may speak
  int speaker_ = -1;                  // on rank 0: which rank of another host speaks, if one does,
  std::vector<MPI_Request> hushing_;  // and the words to the others,
  double hushing_since_ = -1;         // since; < 0: not yet
  std::atomic<double> deadline_{std::numeric_limits<double>::infinity()};
  std::atomic<double> limit_{std::numeric_limits<double>::infinity()};
  std::atomic<double> stop_limit_{std::numeric_limits<double>::infinity()};
  double stop_seen_ = -1;  // on rank 0: when the stop was requested, in running_seconds(); < 0: not yet
  std::jthread thread_;    // last: it uses the others
};

}  // namespace taugrid::comm::detail
