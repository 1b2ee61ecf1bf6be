// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the ranks of one host tell each other through shared memory: readable when MPI is stuck and when the
// writer is dead.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace taugrid::comm::detail {

/// One rank. Its main thread writes; others read when it has died.
struct Slot {
  std::atomic<int> pid{0};
  std::atomic<int> rank{0};
  std::atomic<bool> left{false};  ///< ends as it should: its death is none
  std::atomic<std::uint64_t> pid_namespace{0};
  std::atomic<std::uint64_t> group{0};     ///< of the collective that it entered last,
  std::atomic<std::uint64_t> sequence{0};  ///< and that one's number in its group
  std::atomic<int> waits{0};               ///< how many Waiting objects its main thread is in
  std::atomic<std::uint32_t> length{0};
  char text[472] = {};

  /// Whether the rank has entered the group's collective of this number.
  bool reached(std::uint64_t of, std::uint64_t number) const {
    const auto now = sequence.load();  // before the group: see Entry
    return group.load() == of && now >= number;
  }

  std::string operation() const;
  /// Cuts the text to `keep` characters and appends.
  void write(std::uint32_t keep, std::string_view more);
};

/// One host. Lives in a mapping that is never unmapped: the signal handler writes to it at any time.
struct Board {
  static constexpr int elsewhere = -1;
  /// Who prints the failure message: its place among the slots + 1, a rank of another host, or 0: nobody.
  std::atomic<int> claimed{0};
  std::atomic<bool> said{false};    ///< the message is out
  std::atomic<bool> hushed{false};  ///< on rank 0's host: the others know that one speaks
  std::atomic<int> stop{0};
  std::atomic<int> leave{0};  ///< all ranks leave with this exit code, as they are; 0: none does
  Slot slots[1];  // one a rank of the host

  /// Whether `who` is the first on this host.
  bool claim(int who, int before = 0) { return claimed.compare_exchange_strong(before, who); }
};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// Collective over `host`, whose ranks share memory. Throws std::runtime_error on all ranks where it cannot
/// be had.
Board* share_board(MPI_Comm host);

/// This process's slot; one of its own until publish_to().
Slot& my_slot();
/// Moves this process's slot into shared memory.
void publish_to(Slot& slot);

}  // namespace taugrid::comm::detail
