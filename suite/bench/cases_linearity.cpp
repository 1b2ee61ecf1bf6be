// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Cross-task linearity by layer of a ViT of 12 layers: three tasks, three pairs, three coefficients, all
// layers; the experiment's own work units. Each point passes θ0, its task's and its partners' models, and the
// mixed ones: T(T + 1) + 2PA passes of all tasks' points.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/machine/peak_memory.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/atomic_file.hpp"

namespace taugrid::bench {
namespace {

constexpr std::int64_t vit_layers = 12, vit_tasks = 3, vit_pairs = 3, at_once = 16;
constexpr std::array<double, 3> vit_alpha = {0.25, 0.5, 0.75};

/// A folder with the model, the tasks, their fine-tuned models and the experiment.
struct Vit {
  Vit(const Fixture& x, std::int64_t n)
      : points(n),
        encoder(make_encoder(128, 4, static_cast<int>(vit_layers))),
        start(encoder->random_state(8)),
        path(x.folder() / fmt::format("linearity_{}", n)) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(9);
    models::write_checkpoint(path / "model", *encoder, start);
    std::string names;
    for (std::int64_t t = 0; t < vit_tasks; ++t) {
      const auto name = fmt::format("task{}", t);
      x.write_task(path / "data" / (name + ".h5"), at::randint(0, 256, {n, 32, 32, 3}, generator, at::kByte),
                   at::randint(0, classes, {n}, generator, at::kLong));
      auto tau = at::randn(start.theta.sizes(), generator);
      tau.mul_(0.1 * start.theta.norm() / tau.norm());
      models::write_checkpoint(path / "run" / "checkpoints" / "standard" / name, *encoder,
                               {start.theta + tau, {}});
      names += (t > 0 ? ", \"" : "\"") + name + "\"";
    }
    store::write_atomically(
        path / "bench.toml",
        fmt::format(
            "[run]\nname = \"bench\"\n[model]\npath = \"model\"\n[data]\nfolder = \"data\"\ntasks = [{}]\n"
            "evaluation_points = {}\n[finetune]\n[linearity]\nregimes = [\"standard\"]\nlambda = []\nbatch = "
            "{}\n",
            names, n, at_once));
  }

  std::int64_t points;
  std::unique_ptr<models::Encoder> encoder;
  models::State start;
  std::filesystem::path path;
};

struct LinearityRun : Vit {
  LinearityRun(const Fixture& x, std::int64_t n)
      : Vit(x, n),
        config(config::Config::load(path / "bench.toml")),
        study(config, x.runtime().device()),
        folder(x.runtime().world(), path / "run", "\n"),
        experiment(experiments::make_experiment("linearity", config, study)) {
    study.vectors.set_folder(folder.path());
    experiment->add_units(units, folder);
    for (std::size_t t = 0; t < vit_tasks; ++t)
      study.vectors.vector("standard", t);  // in memory, as the peers' are
  }

  void compute(const comm::Runtime& runtime) {
    pair_files.clear();
    for (const auto& unit : units) {
      std::filesystem::remove(folder.path() / "points-0.safetensors");  // of a longer run before
      schedule::UnitContext context{runtime.world(), runtime.stop(), folder.path(),
                                    [](double, std::string_view) {}};
      auto file = unit.compute(context);
      folder.commit(unit.key, file);
      if (file.tensors.contains("cosine")) pair_files.push_back(std::move(file));
    }
  }

  config::Config config;
  study::Study study;
  schedule::RunFolder folder;
  std::unique_ptr<experiments::Experiment> experiment;
  std::vector<schedule::WorkUnit> units;
  std::vector<store::TensorFile> pair_files;  // of each pair
};

/// Mean cosine of the encoder's output of the first pair at its middle coefficient, from whole outputs.
double mean_cosine(const LinearityRun& run) {
  const at::NoGradGuard no_grad;
  const auto& layout = run.encoder->layout();
  std::vector<at::Tensor> cosines;
  for (std::size_t t = 0; t < 2; ++t) {
    const auto batch = run.study.samples.of(t, study::Split::test, run.points).points.whole();
    const auto output = [&](double a, double b) {
      const auto theta = run.study.model.theta0() + a * run.study.vectors.vector("standard", 0) +
                         b * run.study.vectors.vector("standard", 1);
      return run.encoder->encode(layout.views(theta), batch).to(at::kDouble);
    };
    cosines.push_back(
        at::cosine_similarity(output(0.5, 0.5), 0.5 * output(1, 0) + 0.5 * output(0, 1), 1, 1e-30));
  }
  return at::cat(cosines).mean().item<double>();
}

Work linearity(const Fixture& x, std::int64_t n) {
  const auto run = std::make_shared<LinearityRun>(x, n);
  constexpr auto coefficients = static_cast<std::int64_t>(vit_alpha.size());
  const auto passes = static_cast<double>((vit_tasks * (vit_tasks + 1) + 2 * vit_pairs * coefficients) * n);
  Work work;
  work.run = [&x, run] { run->compute(x.runtime()); };
  work.flops = passes * models::Cost(*run->encoder).forward();
  work.bytes = 4 * passes / static_cast<double>(at_once) * static_cast<double>(run->start.theta.numel());
  work.items = passes;
  work.unit = "passes";
  work.tolerance = 1e-5;
  work.error = [run] {
    const auto ours = run->pair_files.front().tensors.at("cosine").select(-3, -1).select(-2, 1).select(-1, 0);
    return std::abs(ours.item<double>() - mean_cosine(*run));
  };
  work.last = [run] {
    std::vector<at::Tensor> cosine;
    for (const auto& pair : run->pair_files) cosine.push_back(pair.tensors.at("cosine").select(-1, 0));
    return at::stack(cosine).view({vit_pairs, vit_layers + 2, -1});
  };
  work.results = [run, last = work.last, compute = work.run] {
    store::TensorFile file;
    file.tensors["cosine"] = last();
    const machine::PeakMemory memory;
    compute();
    // Beyond parameters, of which the mixed models are held together.
    const auto held = 4 * static_cast<std::int64_t>(vit_alpha.size()) * run->start.theta.numel();
    file.tensors["peak_memory"] = at::full({1}, memory.bytes() - held, at::kLong);
    return file;
  };
  return work;
}

}  // namespace

std::vector<Case> linearity_cases(const Fixture& x) {
  return {{"linearity/vit12_16", [&x] { return linearity(x, 16); }},
          {"linearity/vit12_64", [&x] { return linearity(x, 64); }, true},
          {"linearity/vit12_256", [&x] { return linearity(x, 256); }, true}};
}

}  // namespace taugrid::bench
