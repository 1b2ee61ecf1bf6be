// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Numbers are written by a thread of their own, so that the next ones are made meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "suite/store/safetensors_writer.hpp"

namespace taugrid::store {

/// The end of its life waits for the write that is going on, and drops what was not begun.
class WriteBehind {
 public:
  WriteBehind();
  ~WriteBehind() = default;
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Writes these numbers as file.write() does, later: they may not change from here on, and the file stays.
  /// Waits while many bytes are in the queue. Throws what an earlier write threw.
  void put(SharedSafetensors& file, std::string name, std::int64_t begin, at::Tensor numbers);
  /// Returns when all is written, or throws what a write threw.
  void wait();

 private:
  struct Piece {
    SharedSafetensors* file;
    std::string name;
    std::int64_t begin;
    at::Tensor numbers;
  };
  void run(const std::stop_token& stop);
  void require_written() const;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Piece> queue_;  // the first one is being written
  std::size_t bytes_ = 0;    // of the queue
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace taugrid::store
