// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Gram matrix and merges of more task vectors than the bound on memory holds, as `similarity` and `merging`
// take them from the checkpoints of a run. The share is of the slower of two: reading these files, once a
// pass, and the kernel on vectors that lie in memory. Cases whose names end with vit_s_70 and roberta_70 are
// of as many vectors of a ViT-S's and RoBERTa-base's length as the disk holds, 70 at most: 6 GB and 35 GB in
// the system's folder for temporary files (TMPDIR), or in that of --dump, where they stay. Ranks of mpirun
// share each of these cases, reading and kernel are those of as many, and times are from when all begin to
// when the last ends.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/weights/weights.hpp"
#include "suite/bench/aten_merges.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/merging/study_vectors.hpp"
#include "suite/merging/table.hpp"
#include "suite/models/checkpoint.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/study/study.hpp"

namespace taugrid::bench {
namespace {

constexpr int tasks = 70, kept = 3;  // vectors on disk, and those that the bound holds
constexpr const char* regime = "standard";
constexpr double spared = 12e9;  // bytes that are left free on the disk

/// The size of the model whose vectors these are.
struct Size {
  const char* name;
  int width, heads, layers;
  bool large = false;  ///< memory does not hold the vectors, nor perhaps the disk all of them
};
constexpr Size small = {"many", 256, 4, 4};
constexpr Size vit_s = {"vit_s", 384, 6, 12, true};       // 21.7 M numbers
constexpr Size roberta = {"roberta", 804, 12, 16, true};  // 124.8 M numbers; RoBERTa-base has 124.7 M

/// How many vectors of so many bytes the disk holds beside what is spared.
int on_disk(const std::filesystem::path& folder, double bytes) {
  const double free = static_cast<double>(std::filesystem::space(folder).available) - spared;
  const int count = std::clamp(static_cast<int>(free / bytes) - 1, 0, tasks);  // θ0 besides
  if (count <= kept)
    throw std::runtime_error(fmt::format("{}: holds {} vectors of {:.1f} GB; TMPDIR chooses another folder",
                                         folder.string(), count, bytes / 1e9));
  if (count < tasks) fmt::print("# the disk holds {} vectors of {}\n", count, tasks);
  return count;
}

/// The experiment file, the data sets, θ0 and the fine-tuned models of many tasks, in the fixture's folder.
struct ManyTasks {
  ManyTasks(const Fixture& x, const Size& size)
      : encoder(make_encoder(size.width, size.heads, size.layers)), run(x.folder() / size.name) {
    const auto start = encoder->random_state(4);
    const auto model = std::string(size.name) + "_model";
    const bool writes = x.world().rank() == 0;  // the others wait for it below
    if (writes) models::write_checkpoint(x.folder() / model, *encoder, start);
    const auto count = static_cast<int>(x.world().patient_broadcast(
        writes && size.large ? on_disk(x.folder(), 4.0 * static_cast<double>(encoder->layout().size()))
                             : tasks,
        0, "number of vectors"));
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    std::string list;
    for (int t = 0; t < count; ++t) {
      const auto name = fmt::format("task_{:02}", t);
      x.write_task(name, 0);
      const auto folder = run / "checkpoints" / regime / name;
      if (writes)
        models::write_checkpoint(folder, *encoder,
                                 {start.theta + 1e-3 * at::randn(start.theta.sizes(), generator), {}});
      files.push_back(folder / "model.safetensors");
      list += fmt::format("{}\"{}\"", t > 0 ? ", " : "", name);
    }
    // Two thirds of the bound are for vectors.
    const double bound = 1.5 * kept * 4.0 * static_cast<double>(start.theta.numel());
    experiment = x.folder() / (std::string(size.name) + ".toml");
    const auto text = fmt::format(
        "[run]\nname = \"bench\"\nmemory = {:.9f}\n[model]\npath = \"{}\"\n[data]\n"
        "folder = \"data\"\ntasks = [{}]\nevaluation_points = 1\n[finetune]\n"
        "regimes = [\"{}\"]\n",
        bound / (1 << 30), model, list, regime);
    if (writes) store::write_atomically(experiment, text);
    x.world().patient_barrier("files of the bench");
  }

  std::unique_ptr<models::Encoder> encoder;
  std::filesystem::path run, experiment;
  std::vector<std::filesystem::path> files;
};

/// Reads each file once, into a buffer that stays in cache; a rank of several reads its share of them.
void read_all(const Fixture& x, const std::vector<std::filesystem::path>& files) {
  std::vector<char> buffer(std::size_t{1} << 19);
  const auto share = x.world().share_of(std::ssize(files));
  for (auto i = share.begin; i < share.end(); ++i) {
    const auto& path = files[static_cast<std::size_t>(i)];
    std::ifstream in(path, std::ios::binary);
    in.rdbuf()->pubsetbuf(nullptr, 0);
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
    }
    if (!in.eof()) throw std::runtime_error(path.string() + ": cannot be read");
  }
}

struct OutOfCore {
  OutOfCore(const Fixture& fixture, const Size& size)
      : many(fixture, size),
        config(config::Config::load(many.experiment)),
        study(config, fixture.runtime().device()),
        all(many.files.size()) {
    study.vectors.set_folder(many.run);
    std::iota(all.begin(), all.end(), 0);
    if (study.vectors.kept() >= all.size()) throw std::runtime_error("the bound holds all vectors");
  }
  ManyTasks many;
  config::Config config;
  study::Study study;
  std::vector<std::size_t> all;
  at::Tensor out_of_core, in_core;
};

Work gram(const Fixture& x, const Size& size) {
  const auto state = std::make_shared<OutOfCore>(x, size);
  Work work;
  const auto length = state->study.model.layout().size();
  const auto count = static_cast<std::int64_t>(state->all.size());
  {
    std::vector<at::Tensor> vectors;
    const std::int64_t part = size.large ? 8 : 1;  // of each vector that memory holds: more than caches do
    const auto mine = x.world().share_of(length / part);
    for (const auto t : state->all)
      vectors.push_back(size.large ? at::randn({mine.count}) : state->study.vectors.vector(regime, t));
    if (!size.large) {
      state->in_core = weights::gram(vectors);
      for (auto& each : vectors) each = each.narrow(0, mine.begin, mine.count);
    }
    const double kernel = static_cast<double>(part) * x.fastest(3, [&] { weights::gram(vectors); });
    vectors.clear();  // for files that are read
    const double read = x.fastest(size.large ? 1 : 3, [&] { read_all(x, state->many.files); });
    work.bound = kernel > read ? Bound{kernel, "in core"} : Bound{read, "read"};
  }
  work.run = [state, &x] { state->out_of_core = state->study.vectors.gram(x.world(), regime, state->all); };
  work.flops = static_cast<double>(count * (count + 1) * length);
  work.bytes = 4.0 * static_cast<double>(count * length);
  work.items = static_cast<double>(length);
  work.unit = "rows";
  if (size.large) {
    work.tolerance = 1e-6;
    work.error = [state, count] {  // three entries from whole vectors in float64
      const auto entry = [&](std::int64_t i, std::int64_t j) {
        const auto of = [&](std::int64_t t) {
          return state->study.vectors.vector(regime, static_cast<std::size_t>(t)).to(at::kDouble);
        };
        const double expected = of(i).dot(of(j)).item<double>();
        const auto norm = (state->out_of_core[i][i] * state->out_of_core[j][j]).sqrt().item<double>();
        return std::abs(state->out_of_core[i][j].item<double>() - expected) / norm;
      };
      return std::max({entry(0, 0), entry(1, count - 1), entry(count - 1, count - 1)});
    };
  } else {
    const bool on_host = state->study.device.is_cpu();
    work.tolerance = on_host ? 0 : 1e-12;  // bitwise there; a device adds up each stretch by itself
    work.error = [state, on_host] {
      const auto& [matrix, expected] = std::tie(state->out_of_core, state->in_core);
      if (on_host) return at::equal(matrix, expected) ? 0.0 : 1.0;
      return ((matrix - expected).abs().max() / expected.abs().max()).item<double>();
    };
  }
  return work;
}

/// A method with its defaults; `share`: of the numbers that trimming leaves, 1 where there is none.
Work merge(const Fixture& x, const Size& size, const std::string& method, double share) {
  const auto state = std::make_shared<OutOfCore>(x, size);
  auto describing = config::Config::describing();
  const auto merger = merging::make(method, describing.section("parameters", merging::entry(method).meaning));
  const auto length = state->study.model.layout().size();
  const auto count = state->all.size();
  auto out = at::empty({length}, at::kFloat);
  const auto run = [=](const merging::TaskVectors& vectors, const merging::Team& team) {
    return merger->merge(vectors, std::vector<double>(count, 1.0), merging::Sink(out), team);
  };
  Work work;
  double passes = 0;
  {
    constexpr std::int64_t part = 8;  // of each vector that memory holds: long enough for the same selection
    std::vector<at::Tensor> vectors;
    for (std::size_t t = 0; t < count; ++t)
      vectors.push_back(at::randn({x.world().share_of(length / part).count}));
    const auto in_core = held(vectors);
    const double kernel = static_cast<double>(part) * x.fastest(3, [&] { passes = run(in_core, {}).passes; });
    const double read = passes * x.fastest(2, [&] { read_all(x, state->many.files); });
    work.bound = kernel > read ? Bound{kernel, "in core"} : Bound{read, "read"};
  }
  work.run = [=, team = merging::Team(x.world())] {
    run(merging::StudyVectors(state->study, regime, state->all), team);
  };
  work.bytes = 4.0 * (passes * static_cast<double>(count) + 1) * static_cast<double>(length);
  work.items = static_cast<double>(length);
  work.unit = "numbers";
  work.tolerance = 1e-6;
  work.error = [=] {  // of one stretch, from whole vectors
    constexpr std::int64_t stretch = 20'000;
    std::vector<float> cuts;
    std::vector<at::Tensor> parts;
    const auto k = static_cast<std::int64_t>(share * static_cast<double>(length)) + 1;
    for (const auto t : state->all) {
      const auto tau = state->study.vectors.vector(regime, t).cpu();
      cuts.push_back(share < 1 ? kth_magnitude(tau, k) : 0);
      parts.push_back(tau.narrow(0, length / 2, stretch).clone());
    }
    const auto expected = merged_by_aten(method, at::stack(parts), at::tensor(cuts));
    const auto merged = out.narrow(0, length / 2, stretch);
    return ((merged - expected).abs().max() / expected.abs().max()).item<double>();
  };
  return work;
}

}  // namespace

std::vector<Case> out_of_core_cases(const Fixture& x) {
  return {{"gram/out_of_core", [&x] { return gram(x, small); }, false, true},
          {"gram/vit_s_70", [&x] { return gram(x, vit_s); }, true, true},
          {"merge/linear_vit_s_70", [&x] { return merge(x, vit_s, "linear", 1); }, true, true, true},
          {"merge/ties_vit_s_70", [&x] { return merge(x, vit_s, "ties", 0.2); }, true, true, true},
          {"gram/roberta_70", [&x] { return gram(x, roberta); }, true, true}};
}

}  // namespace taugrid::bench
