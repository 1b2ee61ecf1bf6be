// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/write_behind.hpp"

#include <utility>

namespace taugrid::store {

WriteBehind::WriteBehind() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

void WriteBehind::put(SharedSafetensors& file, std::string name, std::int64_t begin, at::Tensor numbers) {
  constexpr std::size_t most = std::size_t{1} << 22;
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
