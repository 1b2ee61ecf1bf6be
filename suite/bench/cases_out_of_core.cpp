// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Gram matrix of more task vectors than the bound on memory holds, as `similarity` takes it from the
// checkpoints of a run. The share is of the slower of two: reading these files, and the kernel on vectors
// that lie in memory.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/weights/weights.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/study/study.hpp"

namespace taugrid::bench {
namespace {

constexpr int tasks = 70, kept = 3;  // vectors on disk, and those that the bound holds
constexpr const char* regime = "standard";

/// The experiment file, the data sets, θ0 and the fine-tuned models of many tasks, in the fixture's folder.
struct ManyTasks {
  explicit ManyTasks(const Fixture& x) : encoder(make_encoder(256, 4)), run(x.folder() / "many") {
    const auto start = encoder->random_state(4);
    models::write_checkpoint(x.folder() / "many_model", *encoder, start);
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    std::string list;
    for (int t = 0; t < tasks; ++t) {
      const auto name = fmt::format("task_{:02}", t);
      x.write_task(name, 0);
      const auto folder = run / "checkpoints" / regime / name;
      models::write_checkpoint(folder, *encoder,
                               {start.theta + 1e-3 * at::randn(start.theta.sizes(), generator), {}});
      files.push_back(folder / "model.safetensors");
      list += fmt::format("{}\"{}\"", t > 0 ? ", " : "", name);
    }
    // Two thirds of the bound are for vectors.
    const double bound = 1.5 * kept * 4.0 * static_cast<double>(start.theta.numel());
    experiment = x.folder() / "many.toml";
    store::write_atomically(
        experiment,
        fmt::format("[run]\nname = \"bench\"\nmemory = {:.9f}\n[model]\npath = \"many_model\"\n[data]\n"
                    "folder = \"data\"\ntasks = [{}]\nevaluation_points = 1\n[finetune]\n"
                    "regimes = [\"{}\"]\n",
                    bound / (1 << 30), list, regime));
  }

  std::unique_ptr<models::Encoder> encoder;
  std::filesystem::path run, experiment;
  std::vector<std::filesystem::path> files;
};

/// Seconds of the fastest of three.
double fastest(const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto began = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return best;
}

/// Reads each file once, into a buffer that stays in cache.
void read_all(const std::vector<std::filesystem::path>& files) {
  std::vector<char> buffer(std::size_t{1} << 19);
  for (const auto& path : files) {
    std::ifstream in(path, std::ios::binary);
    in.rdbuf()->pubsetbuf(nullptr, 0);
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
    }
    if (!in.eof()) throw std::runtime_error(path.string() + ": cannot be read");
  }
}

Work gram(const Fixture& x) {
  struct State {
    explicit State(const Fixture& fixture)
        : many(fixture),
          config(config::Config::load(many.experiment)),
          study(config, nullptr, fixture.runtime().device()),
          all(tasks) {
      study.vectors.set_folder(many.run);
      std::iota(all.begin(), all.end(), 0);
      if (study.vectors.kept() >= all.size()) throw std::runtime_error("the bound holds all vectors");
    }
    ManyTasks many;
    config::Config config;
    study::Study study;
    std::vector<std::size_t> all;
    at::Tensor found, in_core;
  };
  const auto state = std::make_shared<State>(x);
  Work work;
  const auto length = state->study.model.layout().size();
  {
    std::vector<at::Tensor> vectors;
    for (const auto t : state->all) vectors.push_back(state->study.vectors.vector(regime, t));
    const double kernel = fastest([&] { state->in_core = weights::gram(vectors); });
    const double read = fastest([&] { read_all(state->many.files); });
    work.bound = kernel > read ? Bound{kernel, "in core"} : Bound{read, "read"};
  }
  work.run = [state, &x] {
    state->found = state->study.vectors.gram(x.runtime().world(), regime, state->all);
  };
  work.flops = static_cast<double>(tasks * (tasks + 1) * length);
  work.bytes = 4.0 * static_cast<double>(tasks * length);
  work.items = static_cast<double>(length);
  work.unit = "rows";
  work.error = [state] { return at::equal(state->found, state->in_core) ? 0.0 : 1.0; };  // bitwise
  return work;
}

}  // namespace

std::vector<Case> out_of_core_cases(const Fixture& x) {
  return {{"gram/out_of_core", [&x] { return gram(x); }}};
}

}  // namespace taugrid::bench
