// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/write_behind.hpp"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace taugrid::store {

WriteBehind::WriteBehind() {
  // Requests to stop are for the thread that asks whether there was one.
  sigset_t requests, before;
  sigemptyset(&requests);
  for (const int each : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&requests, each);
  pthread_sigmask(SIG_BLOCK, &requests, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WriteBehind::~WriteBehind() {
  thread_.request_stop();
  thread_.join();
}

void WriteBehind::put(SharedSafetensors& file, std::string name, std::int64_t begin, at::Tensor numbers) {
  constexpr std::size_t most = std::size_t{16} << 20;
  const auto bytes = numbers.nbytes();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() || bytes_ + bytes <= most || failure_; });
  require_written();
  queue_.push_back({&file, std::move(name), begin, std::move(numbers)});
  bytes_ += bytes;
  changed_.notify_all();
}

void WriteBehind::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() || failure_; });
  require_written();
}

void WriteBehind::require_written() const {
  if (failure_) std::rethrow_exception(failure_);
}

void WriteBehind::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !queue_.empty(); }) && !stop.stop_requested()) {
    const auto& piece = queue_.front();  // stays where it is while others come behind
    lock.unlock();
    std::exception_ptr failure;
    try {
      piece.file->write(piece.name, piece.begin, piece.numbers);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    bytes_ -= piece.numbers.nbytes();
    queue_.pop_front();
    changed_.notify_all();
    if (!failure) continue;
    failure_ = failure;
    return;
  }
}

}  // namespace taugrid::store
