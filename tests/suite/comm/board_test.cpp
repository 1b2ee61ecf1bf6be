// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The memory that ranks of one host share, and the text about what a rank does, read by other threads.
#include "suite/comm/detail/board.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "suite/comm/operation.hpp"

using namespace taugrid;

namespace {
std::multiset<std::string> names;  // of the boards that were made
}

// The program's own shm_open goes before the system's.
extern "C" int shm_open(const char* name, int flags, mode_t mode) {
  static auto* const system = reinterpret_cast<int (*)(const char*, int, mode_t)>(dlsym(RTLD_NEXT, "shm_open"));
  if (std::string(name).starts_with("/taugrid-") && (flags & O_CREAT) != 0) names.insert(name);
  return system(name, flags, mode);
}

namespace {

TEST(Board, TwoOfOneProcessNumberDoNotMeet) {
  names.clear();
  for (int i = 0; i < 3; ++i) comm::detail::share_board(MPI_COMM_SELF);
  EXPECT_EQ(names.size(), 3U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 3U) << *names.begin();
}

TEST(Board, SaysWhyThereIsNone) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string text;
  try {
    comm::detail::share_board(MPI_COMM_SELF);
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_NE(text.find("File too large"), std::string::npos) << text;
}

TEST(Doing, IsReadByOtherThreadsWhileItChanges) {
  const std::string first = "first " + std::string(100, 'a'), second = "second " + std::string(200, 'b');
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!over) {
      const auto text = comm::current_operation();
      // The slot's own text may be half of each; what failed may not.
      if (text.size() > 520 || text.find('\0') != std::string::npos) ++wrong;
    }
  });
  for (int i = 0; i < 200'000; ++i) {
    try {
      const comm::Doing doing(i % 2 == 0 ? first : second);
      throw 1;
    } catch (int) {
    }
  }
  over = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
