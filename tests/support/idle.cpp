// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A rank that waits for another asks again and again, and gives its turn away each time, which keeps a
// processor busy that other tests could have. Preloaded, it sleeps instead once it has waited for a moment.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr long still_waiting = 1'000'000;  // ns between two calls, beyond which a new wait began
constexpr int at_once = 50;                // calls of a wait without a sleep
constexpr timespec pause_of_one{0, 100'000};

}  // namespace

extern "C" int sched_yield() noexcept {
  thread_local timespec last{};
  thread_local int calls = 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long since = (now.tv_sec - last.tv_sec) * 1'000'000'000 + now.tv_nsec - last.tv_nsec;
  calls = since < still_waiting ? calls + 1 : 0;
  if (calls < at_once) {
    syscall(SYS_sched_yield);
  } else {
    nanosleep(&pause_of_one, nullptr);
  }
  clock_gettime(CLOCK_MONOTONIC, &last);
  return 0;
}
