// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fails as its first argument says. Second argument: ranks on each pretended host, 0: as it is.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "suite/comm/failure.hpp"
#include "suite/error.hpp"

using namespace taugrid;

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "well";
  comm::Runtime runtime(argc, argv, {.threads = 1, .ranks_per_host = argc > 2 ? std::atoi(argv[2]) : 0});
  return comm::run_guarded(runtime, [&] {
    const auto& world = runtime.world();
    const bool second = world.rank() == 1;
    runtime.check_launcher();
    world.barrier("start");
    const comm::Doing doing("unit finetune/standard/fashion");
    if (how == "all-bad-input") throw InputError("tasks.toml:3: no such task");
    if (how == "one-bad-input" && second) throw InputError("data of rank 1 are missing");
    if (how == "one-throws" && second) throw std::runtime_error("loss is NaN at step 3");
    if (how == "all-throw") throw std::runtime_error("no memory");
    if (how == "dies" && second) raise(SIGKILL);
    if (how == "first-dies" && world.rank() == 0) raise(SIGKILL);
    if (how == "all-but-one-die" && world.rank() != 2) raise(SIGKILL);
    if (how == "exits" && second) std::exit(0);
    if (how == "waits" || how == "ignores") {
      if (world.rank() == 0) std::fprintf(stderr, "waiting\n");
      while (how == "ignores" || !runtime.stop().requested(world)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      throw Interrupted("by " + (runtime.stop().requested() ? runtime.stop().reason() : "another rank"));
    }
    if (how != "well") world.barrier("sum of gradients");  // where the others are stuck
  });
}
