// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/detail/board.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>

#include "suite/comm/communicator.hpp"

namespace taugrid::comm::detail {

namespace {

Slot own_slot;
std::atomic<Slot*> slot{&own_slot};

Board* map(int descriptor, std::size_t bytes, int& error) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (address != MAP_FAILED) return static_cast<Board*>(address);
  error = errno;
  return nullptr;
}

}  // namespace

std::string Slot::operation() const {
  const auto used = std::min<std::size_t>(length.load(std::memory_order_acquire), sizeof text);
  return used == 0 ? "work outside any named operation" : std::string(text, used);
}

void Slot::write(std::uint32_t keep, std::string_view more) {
  const auto room = sizeof text - std::min<std::size_t>(keep, sizeof text);
  const auto added = std::min(room, more.size());
  std::memcpy(text + keep, more.data(), added);
  length.store(keep + static_cast<std::uint32_t>(added), std::memory_order_release);
}

Board* share_board(MPI_Comm host) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(host, &rank);
  MPI_Comm_size(host, &size);
  const auto bytes = sizeof(Board) + sizeof(Slot) * static_cast<std::size_t>(size);

  std::array<char, 64> name{};
  int descriptor = -1;
  Board* board = nullptr;
  int error = 0;
  if (rank == 0) {
    // Two containers that share /dev/shm may have the same process number: the random part tells them apart.
    std::random_device random;
    fmt::format_to_n(name.data(), name.size() - 1, "/taugrid-{}-{:08x}{:08x}", getpid(), random(), random());
    descriptor = shm_open(name.data(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    error = descriptor < 0 ? errno : 0;
    // posix_fallocate: a full /dev/shm shows here and not as SIGBUS later. It returns its error.
    if (descriptor >= 0) error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
    if (error == 0) board = map(descriptor, bytes, error);
    if (board != nullptr) {
      new (board) Board;
      for (int i = 1; i < size; ++i) {
        new (&board->slots[i]) Slot;
      }
    }
  }
  check_mpi(MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, host), "MPI_Bcast");
  if (rank != 0) {
    descriptor = shm_open(name.data(), O_RDWR | O_CLOEXEC, 0600);
    error = descriptor < 0 ? errno : 0;
    if (error == 0) board = map(descriptor, bytes, error);
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
  int ok = board != nullptr ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_INT, MPI_MIN, host), "MPI_Allreduce");
  if (rank == 0) {
    shm_unlink(name.data());  // the mappings live on; a killed job leaves nothing behind
  }
  if (ok == 0) {
    throw std::runtime_error(
        fmt::format("no shared memory among the ranks of this host: {}",
                    error != 0 ? std::strerror(error) : "another rank could not map it"));
  }
  return board;
}

Slot& my_slot() { return *slot.load(std::memory_order_acquire); }

void publish_to(Slot& shared) {
  const auto& now = my_slot();
  shared.write(0, std::string_view(now.text, now.length.load()));
  slot.store(&shared, std::memory_order_release);
}

}  // namespace taugrid::comm::detail
