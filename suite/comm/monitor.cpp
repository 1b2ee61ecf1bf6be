// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/detail/monitor.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <type_traits>

#include "suite/comm/stop.hpp"
#include "suite/error.hpp"

namespace taugrid::comm::detail {

using namespace std::chrono_literals;

namespace {

enum Tag {
  way_tag = 1,
  claim_tag,
  verdict_tag,
  known_tag,
  stop_tag,
  hush_tag,
  question_tag,
  answer_tag,
  leave_tag
};

// The monitor looks at the clock ten times a second. Where it was away for longer than this, the process
// stood still for the rest: a busy machine may take as long, and nobody ran then either.
constexpr double standstill = 1;
std::atomic<double> looked{std::numeric_limits<double>::infinity()};  // at the clock, last; seconds
std::atomic<double> stood_still{0};                                   // seconds, until then

void look_at_clock() {
  const double now = steady_seconds();
  stood_still = stood_still + std::max(0.0, now - looked - standstill);
  looked = now;
}

thread_local bool is_monitor = false;

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

}  // namespace taugrid::comm::detail

namespace taugrid::comm {
// Never ahead of the monitor by more than it may be away: whoever wakes first after a standstill sees none of
// it.
double running_seconds() {
  return std::min(steady_seconds(), detail::looked + detail::standstill) - detail::stood_still;
}
}  // namespace taugrid::comm

namespace taugrid::comm::detail {

// Whether a message of this kind was there. All messages are plain bytes, of like machines.
template <class Message>
bool Monitor::take(int tag, Message& message, int& from) const {
  static_assert(std::is_trivially_copyable_v<Message>);
  MPI_Status status;
  int arrived = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, place_.control, &arrived, &status);
  if (arrived != 0) {
    from = status.MPI_SOURCE;
    MPI_Recv(&message, sizeof message, MPI_BYTE, from, tag, place_.control, MPI_STATUS_IGNORE);
  }
  return arrived != 0;
}

Monitor::Monitor(Place place) : place_(std::move(place)) {
  MPI_Comm_rank(place_.control, &rank_);
  leader_ = place_.local_rank == 0;
  std::set<int> others(place_.leaders.begin(), place_.leaders.end());
  others.erase(0);
  other_leaders_.assign(others.begin(), others.end());
  meet_rank_0();
  open_others();
  thread_ = std::jthread([this](const std::stop_token& token) { watch(token); });
}

Monitor::~Monitor() {
  thread_ = {};  // ends it, before what it uses
  looked = std::numeric_limits<double>::infinity();
  for (const auto& other : others_) {
    if (other.fd >= 0) {
      close(other.fd);
    }
  }
}

// Open MPI connects two ranks at their first message, with the launcher's help: too late for a claim where
// the launcher is slow, or ends the job already.
void Monitor::meet_rank_0() const {
  const auto meet = [&](int other) {
    MPI_Sendrecv(nullptr, 0, MPI_BYTE, other, way_tag, nullptr, 0, MPI_BYTE, other, way_tag, place_.control,
                 MPI_STATUS_IGNORE);
  };
  if (rank_ != 0) return meet(0);
  for (int other = 1; other < static_cast<int>(place_.leaders.size()); ++other) meet(other);
}

void Monitor::watch(const std::stop_token& token) {
  is_monitor = true;
  look_at_clock();
  while (!token.stop_requested()) {
    if (rank_ == 0 && steady_seconds() >= deadline_) {
      StopRequest(&place_.board->stop).request(StopRequest::time_limit);
    }
    if (leader_) {
      answer();
      pass_on();
    }
    look_around();
    leave_if_told();
    look_at_clock();
    look_for_hangs();
    look_for_late_ranks();
  }
}

// In containers with process numbers of their own, another rank's number means nothing here.
bool Monitor::can_see(const Slot& other) const {
  return other.pid_namespace == place_.board->slots[place_.local_rank].pid_namespace;
}

void Monitor::open_others() {
  for (int i = 0; i < place_.local_size; ++i) {
    const auto& slot = place_.board->slots[i];
    const bool watched = i != place_.local_rank && can_see(slot);
    others_.push_back(
        {watched ? static_cast<int>(syscall(SYS_pidfd_open, slot.pid.load(), 0)) : -1, POLLIN, 0});
  }
}

// Waits 100 ms for a process of this host to end. At once, because the launcher has seen it too: Open
// MPI 4.1's mpirun sends SIGCONT, SIGTERM and SIGKILL with a sleep() of 1 s before each of the last two, and
// the death of another rank cuts a sleep short. Where three ranks die in a row, the last one alive has some
// milliseconds to speak, and on a busy machine may have none; then it is mpirun that says who died.
void Monitor::look_around() {
  if (poll(others_.data(), others_.size(), 100) > 0) {
    for (int i = 0; i < place_.local_size; ++i) {
      if (others_[i].fd >= 0 && others_[i].revents != 0) {
        say_if_died(place_.board->slots[i]);
        close(others_[i].fd);  // left as it should: nothing more to see
        others_[i].fd = -1;
      }
    }
  }
  // Where the system cannot wait so, each looks at the next, in a ring.
  const int next = (place_.local_rank + 1) % place_.local_size;
  if (next != place_.local_rank && others_[next].fd < 0) {
    const auto& other = place_.board->slots[next];
    if (!other.left && can_see(other) && !alive(other.pid)) say_if_died(other);
  }
}

void Monitor::say_if_died(const Slot& other) {
  if (other.left) return;
  end_all(fmt::format("taugrid: rank {} ({}, process {}) died while doing: {}", other.rank.load(),
                      place_.host, other.pid.load(), other.operation()),
          1);
}

void Monitor::look_for_hangs() {
  const double limit = limit_;
  if (const auto hung = entered_before(running_seconds() - limit)) {
    end_all(
        fmt::format("taugrid: rank {} ({}) waited {:.3g} s in {} (while doing: {}): {}", rank_, place_.host,
                    limit, hung->what, place_.board->slots[place_.local_rank].operation(), missing(*hung)),
        1);
  }
}

void Monitor::look_for_late_ranks() {
  const int reason = place_.board->stop;
  if (rank_ != 0 || reason == 0) return;
  if (stop_seen_ < 0) stop_seen_ = running_seconds();
  const double limit = stop_limit_;
  if (running_seconds() - stop_seen_ < limit) return;
  leave_all(fmt::format("taugrid: stopped: {:.3g} s after {}, {}; run again to continue", limit,
                        StopRequest(&place_.board->stop).reason(), late_ranks()),
            static_cast<int>(ExitCode::resumable));
}

// "rank 3 (node7) had come to no safe point, which is doing: …". A rank that waits for others is not to
// blame, unless all wait.
std::string Monitor::late_ranks() {
  std::vector<Question> questions;
  for (int rank = 0; rank < static_cast<int>(place_.leaders.size()); ++rank)
    questions.push_back({0, 0, rank});
  auto answers = ask(questions);
  if (std::any_of(answers.begin(), answers.end(), [](const Answer& each) { return !each.waits; }))
    std::erase_if(answers, [](const Answer& each) { return each.waits; });
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, answers.size()); ++i) {
    const std::string host = answers[i].host;
    text += fmt::format("{}rank {}{} had come to no safe point, {}", i == 0 ? "" : "; ", answers[i].rank,
                        host.empty() ? "" : " (" + host + ")", answers[i].text);
  }
  if (answers.size() > shown) text += fmt::format("; and {} more", answers.size() - shown);
  return text;
}

// "missing rank 3, which is doing: …", of the group's ranks that have not come.
std::string Monitor::missing(const Entered& collective) {
  std::vector<Question> questions;
  for (const int rank : collective.group->ranks) {
    if (rank != rank_) questions.push_back({collective.group->id, collective.number, rank});
  }
  std::string text;
  for (const auto& answer : ask(questions)) {
    if (answer.reached) continue;
    text += fmt::format("{}rank {}, {}", text.empty() ? "missing " : "; ", answer.rank, answer.text);
  }
  return text.empty() ? "all ranks of the group have entered it, so the network or a device stands still"
                      : text;
}

Monitor::Answer Monitor::answer_of(const Question& question) const {
  Answer answer{question.rank, false, true, {}, "which runs no longer"};
  for (int i = 0; i < place_.local_size; ++i) {
    const auto& slot = place_.board->slots[i];
    if (slot.rank != question.rank || slot.left) continue;
    answer.reached = slot.reached(question.group, question.number);
    answer.waits = slot.waits > 0;
    place_.host.copy(answer.host, sizeof answer.host - 1);
    const auto text = "which is doing: " + slot.operation();
    answer.text[text.copy(answer.text, sizeof answer.text - 1)] = '\0';
  }
  return answer;
}

// Asks ranks of this host by its board, those of others by their leaders; who gives no answer in 1 s says so.
std::vector<Monitor::Answer> Monitor::ask(const std::vector<Question>& questions) {
  std::vector<Answer> answers(questions.size());
  std::vector<MPI_Request> requests;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const int leader = place_.leaders[questions[i].rank];
    if (leader == place_.leaders[rank_]) {
      answers[i] = answer_of(questions[i]);
      continue;
    }
    answers[i] = {questions[i].rank, false, false, {}, "whose host gives no answer"};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&questions[i], sizeof questions[i], MPI_BYTE, leader, question_tag, place_.control, &request);
    requests.push_back(request);
  }
  auto open = requests.size();
  for (const double end = steady_seconds() + 1; open > 0 && steady_seconds() < end;) {
    if (leader_) answer();  // who asks may be asked
    Answer reply;
    int from = 0;
    if (!take(answer_tag, reply, from)) {
      std::this_thread::sleep_for(1ms);
      continue;
    }
    for (auto& each : answers) {
      if (each.rank == reply.rank) each = reply;
    }
    --open;
  }
  return answers;  // the sends are left to themselves: what follows ends the program
}

void Monitor::tell(int to, int tag, const int& message) {
  // A few bytes are on their way when this returns: no wait for a rank that may be gone.
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&message, sizeof message, MPI_BYTE, to, tag, place_.control, &request);
  MPI_Request_free(&request);
}

void Monitor::tell_other_hosts(int tag, const int& message) {
  for (const int leader : other_leaders_) tell(leader, tag, message);
}

void Monitor::pass_on() {
  if (const int reason = place_.board->stop; reason != 0 && stop_told_ == 0) {
    stop_told_ = reason;
    rank_ == 0 ? tell_other_hosts(stop_tag, stop_told_) : tell(0, stop_tag, stop_told_);
  }
  if (rank_ == 0 && place_.board->claimed != 0 && !place_.board->hushed) {
    hush();
  }
}

// Rank 0 tells the other hosts that one speaks, and then the speaker that they know. A host that does not
// hear within 1 s stands still.
void Monitor::hush() {
  if (hushing_since_ < 0) {
    for (const int leader : other_leaders_) {
      if (speaker_ >= 0 && leader == place_.leaders[speaker_]) continue;
      hushing_.push_back(MPI_REQUEST_NULL);
      // Synchronous: complete only when received.
      MPI_Issend(&rank_, sizeof rank_, MPI_BYTE, leader, hush_tag, place_.control, &hushing_.back());
    }
    hushing_since_ = steady_seconds();
  }
  int done = 0;
  MPI_Testall(static_cast<int>(hushing_.size()), hushing_.data(), &done, MPI_STATUSES_IGNORE);
  if (done == 0 && steady_seconds() < hushing_since_ + 1) {
    return;
  }
  place_.board->hushed = true;
  if (speaker_ >= 0) {
    MPI_Send(&rank_, sizeof rank_, MPI_BYTE, speaker_, known_tag, place_.control);
  }
}

// The speaker ends all ranks after this: those that had not heard might find time to speak as well.
void Monitor::wait_until_hushed() {
  const auto hushed = [&] {
    if (place_.leaders[rank_] == 0) return place_.board->hushed.load();
    int message = 0;
    int from = 0;
    return take(known_tag, message, from);
  };
  if (other_leaders_.empty()) return;
  for (const double end = steady_seconds() + 2; steady_seconds() < end && !hushed();) {
    pause(10ms);
  }
}

void Monitor::answer() {
  int message = 0;
  int from = 0;
  while (take(stop_tag, message, from)) {
    StopRequest(&place_.board->stop).request(message);
  }
  while (take(hush_tag, message, from)) {
    place_.board->claimed = Board::elsewhere;  // also over a claim that waits for its verdict
  }
  while (take(leave_tag, message, from)) {
    place_.board->leave = message;
  }
  for (Question question; take(question_tag, question, from);) {
    const auto mine = answer_of(question);
    MPI_Send(&mine, sizeof mine, MPI_BYTE, from, answer_tag, place_.control);
  }
  while (rank_ == 0 && take(claim_tag, message, from)) {
    const int first = place_.board->claim(Board::elsewhere) ? 1 : 0;
    if (first != 0) speaker_ = from;
    MPI_Send(&first, sizeof first, MPI_BYTE, from, verdict_tag, place_.control);
  }
}

bool Monitor::claim() {
  if (!place_.board->claim(place_.local_rank + 1)) {
    return false;
  }
  if (place_.leaders[rank_] == 0) {
    return true;  // this host's flag is the one for all
  }
  MPI_Request requests[2];
  MPI_Irecv(&verdict_, sizeof verdict_, MPI_BYTE, 0, verdict_tag, place_.control, &requests[0]);
  MPI_Isend(&rank_, sizeof rank_, MPI_BYTE, 0, claim_tag, place_.control, &requests[1]);
  for (const double end = steady_seconds() + 3; steady_seconds() < end;) {
    int done = 0;
    MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
    if (done != 0) {
      return verdict_ != 0;
    }
    if (place_.board->claimed == Board::elsewhere) {
      return false;  // heard from the leader
    }
    pause(10ms);
  }
  return true;
}

// Others ask this thread, too, while it waits.
void Monitor::pause(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
    if (is_monitor && leader_) {
      answer();
      pass_on();
    }
    leave_if_told();
    std::this_thread::sleep_for(1ms);
  }
}

// Whether the one who was to speak died before it did.
bool Monitor::take_over() const {
  auto& board = *place_.board;
  const int who = board.claimed;
  if (who < 1 || who == place_.local_rank + 1 || board.said) {
    return false;
  }
  const auto& speaker = board.slots[who - 1];
  return can_see(speaker) && !alive(speaker.pid) && !board.said && board.claim(place_.local_rank + 1, who);
}

// Each rank leaves by itself, with the same code: where one aborted instead, some launchers would show the
// others' deaths. On rank 0.
void Monitor::leave_all(const std::string& line, int code) {
  if (!claim()) end_all(line, code);  // another speaks, and ends us
  const auto text = line + "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
  place_.board->said = true;
  wait_until_hushed();
  tell_other_hosts(leave_tag, code);
  place_.board->leave = code;
  const auto end = std::chrono::steady_clock::now() + 300ms;  // the messages are sent meanwhile
  while (std::chrono::steady_clock::now() < end) {
    answer();
    std::this_thread::sleep_for(1ms);
  }
  std::_Exit(code);
}

void Monitor::leave_if_told() const {
  const int code = place_.board->leave;
  if (code != 0 && rank_ != 0) std::_Exit(code);
}

// What the launcher has not read of stderr's pipe when MPI_Abort reaches it may never be printed.
void Monitor::wait_until_read() {
  pause(50ms);
  struct stat kind {};
  if (fstat(STDERR_FILENO, &kind) != 0 || !S_ISFIFO(kind.st_mode)) return;
  int unread = 0;
  for (const double end = steady_seconds() + 1; steady_seconds() < end;) {
    if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) return;
    pause(1ms);
  }
}

void Monitor::end_all(const std::string& line, int code) {
  bool speaks = claim();
  for (int i = 0; !speaks && i < 10000; ++i) {
    pause(1ms);  // the one who speaks ends us
    speaks = take_over();
  }
  if (speaks) {
    const auto text = line + "\n";
    // One write: lines of several ranks do not mix.
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
    place_.board->said = true;
    wait_until_hushed();
    wait_until_read();
  }
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace taugrid::comm::detail
