// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A small experiment: tasks, then pairs of tasks. Arguments: run folder, what goes wrong, ranks a unit, and
// the configuration's seed.
#include <ATen/ATen.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "suite/comm/failure.hpp"
#include "suite/schedule/scheduler.hpp"

using namespace taugrid;
using schedule::UnitContext;

namespace {

// 20 steps of a recurrence with a checkpoint after each: the same numbers however often it is interrupted.
store::TensorFile train(UnitContext& context, int task, const std::string& wrong, int rank) {
  auto theta = at::full({64}, 1.0 + task, at::kDouble);
  int step = 0;
  const auto checkpoint = context.scratch / "step.safetensors";
  if (std::filesystem::exists(checkpoint)) {
    const auto file = store::read_safetensors(checkpoint);
    theta = file.tensors.at("theta");
    step = std::stoi(file.metadata.at("step"));
  }
  for (; step < 20; ++step) {
    context.stop_if_requested();
    if (wrong == "throws" && task == 3 && step == 2) throw std::runtime_error("loss is NaN");
    if (wrong == "dies" && task == 3 && step == 2 && rank == 1) raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    auto gradient = at::sin(theta * (1 + context.group.rank()));
    context.group.all_reduce_sum(gradient, "sum of gradients");
    theta = theta - 0.01 * gradient;
    context.group.barrier("step");
    if (context.group.rank() == 0) {
      store::write_safetensors(checkpoint, {{{"theta", theta}}, {{"step", std::to_string(step + 1)}}});
    }
    context.group.barrier("checkpoint");
    context.progress(step / 20.0, "step " + std::to_string(step));
  }
  return {{{"theta", theta}}, {}};
}

}  // namespace

int main(int argc, char** argv) {
  comm::Runtime runtime(argc, argv);
  return comm::run_guarded(runtime, [&] {
    const std::string wrong = argv[2];
    const schedule::RunFolder folder(runtime.world(), argv[1], std::string("seed = ") + argv[4] + "\n");
    std::vector<schedule::WorkUnit> units;
    const auto name = [](int task) { return "finetune/standard/task" + std::to_string(task); };
    for (int a = 0; a < 6; ++a) {
      units.push_back({name(a), 10, {}, [&, a](UnitContext& context) {
                         // Rank 1 gets this one late or never if tasks are dealt freely: it dies wherever it
                         // is.
                         return train(context, wrong == "dies" && runtime.world().rank() == 1 ? 3 : a, wrong,
                                      runtime.world().rank());
                       }});
      for (int b = 0; b < a; ++b) {
        units.push_back({"pair/" + std::to_string(a) + "-" + std::to_string(b),
                         1,
                         {name(a), name(b)},
                         [&, a, b](UnitContext&) {
                           const auto read = [&](int task) {
                             return folder.read_unit(name(task)).tensors.at("theta");
                           };
                           return store::TensorFile{{{"dot", (read(a) * read(b)).sum().reshape({1})}}, {}};
                         }});
      }
    }
    schedule::run_units(runtime, folder, units, {.ranks_per_unit = std::atoi(argv[3])});
  });
}
