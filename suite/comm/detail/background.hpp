// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Collectives of the host that run beside the thread that asked for them, one after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "suite/comm/detail/transport.hpp"

namespace taugrid::comm::detail {

class Background {
 public:
  /// `comm`: its own, outlives this object.
  Background(MPI_Comm comm, std::int64_t chunk_bytes)
      : transport_(make_mpi_transport(comm, chunk_bytes, /*patient=*/true)),
        thread_([this](const std::stop_token& token) { work(token); }) {}

  Transport& transport() { return *transport_; }

  std::future<void> start(std::packaged_task<void()> task) {
    auto done = task.get_future();
    {
      const std::scoped_lock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    ready_.notify_one();
    return done;
  }

 private:
  void work(const std::stop_token& token) {
    while (true) {
      std::unique_lock lock(mutex_);
      if (!ready_.wait(lock, token, [this] { return !tasks_.empty(); })) return;
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::unique_ptr<Transport> transport_;
  std::mutex mutex_;
  std::condition_variable_any ready_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace taugrid::comm::detail
