// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The grids of the disentanglement error of one pair, and the α sweep of task addition: the experiments' own
// work units, in a run folder of their own, with their reading and committing of files.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <functional>
#include <memory>
#include <set>

#include "kernels/autodiff/products.hpp"
#include "kernels/metrics/metrics.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::bench {
namespace {

/// A study of two tasks in one regime, and the units that one experiment takes, in order.
struct Run {
  /// `name`: of its folder; `section`: the experiment's, in TOML.
  Run(const Fixture& x, const std::string& name, const std::string& regime, const std::string& section)
      : config(write_config(x, name, regime, section)),
        study(config, x.runtime().device()),
        folder(x.runtime().world(), x.folder() / name, "regime = \"" + regime + "\"\n") {
    study.vectors.set_folder(folder.path());
    x.write_task_vectors(name, regime);
    const auto add = [&](const char* experiment) {
      experiments.push_back(experiments::make_experiment(experiment, config, study));
    };
    add("linear_features");
    if (config.has("disentanglement")) {
      add("disentanglement");
    } else {
      add("single_task");
      add("addition");
    }
    units = experiments::units_of(experiments, study, folder);
    // The sweep needs f(x; θ0), its direction's tangents, and nothing of single tasks.
    if (!config.has("disentanglement")) {
      std::erase_if(units, [](const auto& unit) {
        return !unit.key.starts_with("features/base/") && !unit.key.starts_with("addition/");
      });
    }
    for (std::size_t t = 0; t < 2; ++t) study.vectors.vector(regime, t);  // in memory, as the peers' are
  }

  static config::Config write_config(const Fixture& x, const std::string& name, const std::string& regime,
                                     const std::string& section) {
    const auto path = x.folder() / (name + ".toml");
    const auto points = std::to_string(grid_points);
    x.write_inputs();
    store::write_atomically(
        path, "[run]\nname = \"bench\"\n[model]\npath = \"model\"\n[data]\nfolder = \"data\"\ntasks = [\"" +
                  std::string(task_names[0]) + "\", \"" + task_names[1] + "\"]\nevaluation_points = " +
                  points + "\n[finetune]\nregimes = [\"" + regime + "\"]\n" + section);
    return config::Config::load(path);
  }

  void compute(const comm::Runtime& runtime) {
    for (const auto& unit : units) {
      schedule::UnitContext context{runtime.world(), runtime.stop(), folder.path(),
                                    [](double, std::string_view) {}};
      last = unit.compute(context);
      folder.commit(unit.key, last);
    }
  }

  config::Config config;
  study::Study study;
  schedule::RunFolder folder;
  std::vector<std::unique_ptr<experiments::Experiment>> experiments;
  std::vector<schedule::WorkUnit> units;
  store::TensorFile last;  // of the last unit: of a grid, that of the pair
};

/// ξ's first term at cells on and off the diagonals, one by one from the definition. Relative to the worst
/// possible value, 1. `outputs(α1, α2)`: encoder outputs on the first task's points.
double grid_error(const Run& run, std::int64_t steps,
                  const std::function<at::Tensor(double, double)>& outputs) {
  double worst = 0;
  const auto alpha = at::linspace(-3, 3, steps, at::kDouble);
  const auto head = run.study.readouts.of(0);
  for (const auto& [r, c] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {2, steps - 1}, {steps - 2, 3}}) {
    const double a1 = alpha[r].item<double>(), a2 = alpha[c].item<double>();
    const auto alone = metrics::predictions(head.logits(outputs(a1, 0)));
    const auto merged = metrics::predictions(head.logits(outputs(a1, a2)));
    const double expected =
        metrics::disagreements(alone, merged).item<double>() / static_cast<double>(grid_points);
    worst =
        std::max(worst, std::abs(run.last.tensors.at("error_by_task")[0][r][c].item<double>() - expected));
  }
  return worst;
}

Work grid(const Fixture& x, const std::string& regime, std::int64_t steps) {
  const auto run = std::make_shared<Run>(
      x, regime, regime,
      "[disentanglement]\nrepresentation = false\nalpha = { from = -3.0, to = 3.0, count = " +
          std::to_string(steps) + " }\npoints = " + std::to_string(grid_points) + "\n");
  const double n = grid_points, f = x.forward_flops(), a = static_cast<double>(steps);
  const bool linear = regime == "linear";
  Work work;
  work.run = [&x, run] { run->compute(x.runtime()); };
  // Linear: f0 and two tangents on both tasks' points; a cell then is 4 flops a feature and the head's
  // product. Non-linear: A single-task predictions and A² merged ones (none where the other α is 0) on n
  // points a task.
  const double features = static_cast<double>(x.encoder().width());
  const double cells = 2 * a * (steps % 2 == 1 ? a - 1 : a);
  work.flops = linear ? 2 * n * (1 + 2 * 3) * f + (cells + 2 * a) * n * features * (4 + 2 * classes)
                      : (cells + 2 * a) * n * f;
  work.bytes = linear ? 4 * 5 * static_cast<double>(x.theta0().numel())
                      : 4 * 4 * cells * static_cast<double>(x.theta0().numel());
  work.items = a * a;
  work.unit = "cells";
  work.tolerance = 1.5 / n;  // one prediction of n may flip where two logits are equal up to rounding
  work.error = [&x, run, steps, linear] {
    const at::NoGradGuard no_grad;
    const auto batch = run->study.samples.of(0, study::Split::test, grid_points).points.whole();
    return grid_error(*run, steps, [&](double a1, double a2) {
      const auto tau = a1 * x.tau(0) + a2 * x.tau(1);
      const auto& layout = x.encoder().layout();
      if (!linear) return x.encoder().encode(layout.views(x.theta0() + tau), batch);
      const auto at_point = autodiff::jvp(
          layout, [&](const std::vector<autodiff::Dual>& p) { return x.encoder().encode(p, batch); },
          x.theta0(), tau);
      return at_point.value + at_point.tangent;
    });
  };
  work.results = [run] {
    store::TensorFile file;
    file.tensors["error_by_task"] = run->last.tensors.at("error_by_task");
    return file;
  };
  return work;
}

/// Task addition of a linear regime at 21 coefficients, on two tasks; the work grows with the number of tasks
/// in the same way for any method.
Work sweep(const Fixture& x) {
  const auto run = std::make_shared<Run>(x, "sweep", "linear", "[addition]\n");
  const double n = grid_points, f = x.forward_flops();
  const double features = static_cast<double>(x.encoder().width());
  Work work;
  work.run = [&x, run] { run->compute(x.runtime()); };
  work.flops =
      2 * (n + 1) * ((1 + 3) * f + 21 * features * (2 + 2 * classes));  // one validation image a task
  work.bytes = 4 * 5 * static_cast<double>(x.theta0().numel());
  work.items = 21;
  work.unit = "coefficients";
  work.tolerance = 1.5 / n;
  work.error = [&x, run] {
    const at::NoGradGuard no_grad;
    const auto sample = run->study.samples.of(1, study::Split::test, grid_points);
    const auto batch = sample.points.whole();
    const auto& layout = x.encoder().layout();
    double worst = 0;
    for (const std::int64_t k : {0, 7, 20}) {
      const auto z = autodiff::jvp(
          layout, [&](const std::vector<autodiff::Dual>& p) { return x.encoder().encode(p, batch); },
          x.theta0(), (0.05 * static_cast<double>(k)) * (x.tau(0) + x.tau(1)));
      const double expected =
          metrics::accuracy(run->study.readouts.of(1).logits(z.value + z.tangent), sample.labels)
              .item<double>();
      worst = std::max(worst, std::abs(run->last.tensors.at("test")[k].item<double>() - expected));
    }
    return worst;
  };
  work.results = [run] {
    store::TensorFile file;
    file.tensors["accuracy"] = run->last.tensors.at("test");
    return file;
  };
  return work;
}

}  // namespace

std::vector<Case> experiment_cases(const Fixture& x) {
  return {{"grid/nonlinear_7x7", [&x] { return grid(x, "standard", 7); }},
          {"grid/linear_20x20", [&x] { return grid(x, "linear", 20); }},
          {"sweep/linear_21", [&x] { return sweep(x); }}};
}

}  // namespace taugrid::bench
