// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Fails as its first argument says: "dies", or "dies all-gather" at that collective. Second argument: ranks
// on each pretended host, 0: as it is. Third: the limit of a collective, in seconds; fourth: of a stop.
#include <ATen/ATen.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "suite/comm/failure.hpp"
#include "suite/error.hpp"

using namespace taugrid;

namespace {

/// Calls the collective of this name.
void call(const comm::Communicator& world, const std::string& name) {
  auto tensor = at::ones({8 * world.size()});
  std::string text = "text";
  if (name == "barrier") return world.barrier(name);
  if (name == "broadcast") return world.broadcast(tensor, 0, name);
  if (name == "text-broadcast") return world.broadcast(text, 0, name);
  if (name == "all-reduce") return world.all_reduce_sum(tensor, name);
  if (name == "all-reduce-beside") return world.begin_all_reduce_sum(tensor, name).wait();
  if (name == "foreign") {  // another library's collective
    const comm::Communicator::Foreign entry(world, name);
    MPI_Barrier(world.mpi());
    return;
  }
  if (name == "all-gather") return static_cast<void>(world.all_gather(tensor, name));
  if (name == "agreement") return static_cast<void>(world.agree(true, name));
  if (name == "split") return static_cast<void>(world.split(0, 0, name));
  throw InputError("no collective " + name);
}

/// What befalls rank 1 where the others go on.
void befall(const std::string& fate) {
  if (fate == "throws") throw std::runtime_error("loss is NaN at step 3");
  if (fate == "dies") raise(SIGKILL);
  if (fate == "is-stopped") raise(SIGSTOP);
  for (int i = 0; fate == "is-slow" && i < 100; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  while (fate == "hangs") std::this_thread::sleep_for(std::chrono::seconds(1));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "well";
  comm::Runtime runtime(argc, argv, {.threads = 1, .ranks_per_host = argc > 2 ? std::atoi(argv[2]) : 0});
  return comm::run_guarded(runtime, [&] {
    const auto& world = runtime.world();
    const bool second = world.rank() == 1;
    if (argc > 3) runtime.limit_collectives(std::chrono::duration<double>(std::atof(argv[3])));
    if (argc > 4) runtime.limit_stops(std::chrono::duration<double>(std::atof(argv[4])));
    runtime.check_launcher();
    world.barrier("start");
    if (world.rank() == 0) std::fprintf(stderr, "# now\n");  // from here on the tests count the seconds
    const comm::Doing doing("unit finetune/standard/fashion");
    if (const auto space = how.find(' '); space != std::string::npos) {
      const auto collective = how.substr(space + 1);
      call(world, collective);  // well once
      if (second) befall(how.substr(0, space));
      call(world, collective);
      return world.barrier("barrier after it");  // a broadcast's root, for one, waits for nobody
    }
    if (how == "all-bad-input") throw InputError("tasks.toml:3: no such task");
    if (how == "one-bad-input" && second) throw InputError("data of rank 1 are missing");
    if (how == "bad-input-as-patience-ends") {
      if (!second) std::this_thread::sleep_for(std::chrono::seconds(1));
      throw InputError("data were changed");
    }
    if (how == "one-throws" && second) throw std::runtime_error("loss is NaN at step 3");
    if (how == "all-throw") throw std::runtime_error("no memory");
    if (how == "dies" && second) raise(SIGKILL);
    if (how == "first-dies" && world.rank() == 0) raise(SIGKILL);
    if (how == "all-but-one-die" && world.rank() != 2) raise(SIGKILL);
    if (how == "exits" && second) std::exit(0);
    if (how == "comes-late") {
      if (world.rank() == 0) std::fprintf(stderr, "waiting\n");
      const comm::Doing write("write a checkpoint");
      while (second || !runtime.stop().requested()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      throw Interrupted("by " + runtime.stop().reason());
    }
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
