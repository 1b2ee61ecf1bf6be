// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/dealer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "suite/comm/failure.hpp"

namespace taugrid::schedule::detail {

namespace {

enum Tag { request_tag = 1, answer_tag };
enum class Kind : int { ask, done, interrupted, progress };

struct Message {
  Kind kind = Kind::ask;
  int unit = -1;
  double fraction = 0;
  std::array<char, 80> detail{};
};

void send(const comm::Communicator& comm, const Message& message) {
  comm::check_mpi(MPI_Send(&message, sizeof message, MPI_BYTE, 0, request_tag, comm.mpi()), "MPI_Send");
}

}  // namespace

Asker::Order Asker::ask() const {
  const comm::Waiting waiting("wait for a unit");
  std::vector<int> words(2 + static_cast<std::size_t>(groups_), -1);  // unit, count of groups, groups
  MPI_Request answer = MPI_REQUEST_NULL;
  comm::check_mpi(MPI_Irecv(words.data(), static_cast<int>(words.size()), MPI_INT, 0, answer_tag, comm_.mpi(),
                            &answer),
                  "MPI_Irecv");
  send(comm_, {.kind = Kind::ask});
  comm::wait_patiently(answer, "MPI_Irecv");
  return {words[0], {words.begin() + 2, words.begin() + 2 + words[1]}};
}

void Asker::done(int unit) const { send(comm_, {.kind = Kind::done, .unit = unit}); }

void Asker::interrupted(int unit) const { send(comm_, {.kind = Kind::interrupted, .unit = unit}); }

void Asker::progress(int unit, double fraction, std::string_view detail) const {
  Message message{.kind = Kind::progress, .unit = unit, .fraction = fraction};
  detail.copy(message.detail.data(), message.detail.size() - 1);
  send(comm_, message);
}

Dealer::Dealer(comm::Runtime& runtime, const comm::Communicator& comm, const std::vector<WorkUnit>& units,
               Deal& deal, Progress* progress, int groups, int width)
    : runtime_(runtime),
      comm_(comm),
      units_(units),
      deal_(deal),
      progress_(progress),
      groups_left_(groups),
      width_(width),
      thread_([this](const std::stop_token& token) {
        try {
          serve(token);
        } catch (const std::exception& error) {
          comm::fail_now(runtime_, std::string("the dealer of units: ") + error.what());
        }
      }) {}

void Dealer::join() {
  const comm::Waiting waiting("wait for the other groups");
  thread_.join();
}

void Dealer::serve(const std::stop_token& token) {
  if (progress_ != nullptr) {
    progress_->refresh(true);
  }
  while (groups_left_ > 0 && !token.stop_requested()) {
    while (receive()) {
    }
    answer();
    if (progress_ != nullptr) {
      progress_->refresh();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (progress_ != nullptr && groups_left_ == 0) {
    progress_->refresh(true);
  }
}

bool Dealer::receive() {
  int flag = 0;
  MPI_Status status;
  comm::check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, request_tag, comm_.mpi(), &flag, &status), "MPI_Iprobe");
  if (flag == 0) {
    return false;
  }
  Message message;
  comm::check_mpi(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, request_tag, comm_.mpi(),
                           MPI_STATUS_IGNORE),
                  "MPI_Recv");
  switch (message.kind) {
    case Kind::ask:
      waiting_.push_back(status.MPI_SOURCE);
      break;
    case Kind::done:
      deal_.finish(message.unit);
      if (progress_ != nullptr) {
        progress_->finished(message.unit);
      }
      break;
    case Kind::interrupted:
      runtime_.stop().request();  // its host may have known before this one
      if (progress_ != nullptr) {
        progress_->stopped(message.unit);
      }
      break;
    case Kind::progress:
      if (progress_ != nullptr) {
        progress_->advanced(message.unit, message.fraction, message.detail.data());
      }
      break;
  }
  return true;
}

void Dealer::send_order(int leader, int unit, const std::vector<int>& groups) const {
  std::vector<int> words = {unit, static_cast<int>(groups.size())};
  words.insert(words.end(), groups.begin(), groups.end());
  comm::check_mpi(
      MPI_Send(words.data(), static_cast<int>(words.size()), MPI_INT, leader, answer_tag, comm_.mpi()),
      "MPI_Send");
}

void Dealer::answer() {
  while (!waiting_.empty()) {
    if (runtime_.stop().requested() || deal_.all_done()) {
      groups_left_ -= 1;
      send_order(waiting_.front(), -1, {});
      waiting_.pop_front();
      continue;
    }
    const auto unit = deal_.next(static_cast<int>(waiting_.size()), waiting_.front() / width_);
    if (!unit) {
      return;  // what is left waits for units that others compute, or for more groups
    }
    if (progress_ != nullptr) {
      progress_->started(*unit, units_[*unit].key, units_[*unit].cost);
    }
    const auto end = waiting_.begin() + deal_.groups_of(*unit);
    const std::vector<int> leaders(waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
    std::vector<int> groups;
    for (const int leader : leaders) groups.push_back(leader / width_);
    std::sort(groups.begin(), groups.end());
    for (const int leader : leaders) send_order(leader, *unit, groups);
  }
}

}  // namespace taugrid::schedule::detail
