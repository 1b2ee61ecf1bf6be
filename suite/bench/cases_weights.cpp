// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Weight-space kernels and storage: bound by memory or disk.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "kernels/weights/weights.hpp"
#include "suite/bench/aten_merges.hpp"
#include "suite/bench/case.hpp"
#include "suite/bench/fixture.hpp"
#include "suite/merging/table.hpp"
#include "suite/store/results.hpp"

namespace taugrid::bench {
namespace {

constexpr std::int64_t length = 10'000'000, tasks = 8;  // P, T

std::vector<at::Tensor> random_vectors(c10::Device device, std::int64_t count, std::uint64_t seed,
                                       std::int64_t numbers = length) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::vector<at::Tensor> vectors;
  for (std::int64_t i = 0; i < count; ++i) vectors.push_back(at::randn({numbers}, generator).to(device));
  return vectors;
}

/// out[k] = θ0 + Σₜ α[k,t]·τₜ. Bytes (1 + T + K)·P·4; flops 2·K·T·P.
Work combine(c10::Device device, std::int64_t rows) {
  auto vectors = random_vectors(device, tasks + 1, 11);
  const auto theta0 = vectors.back();
  vectors.pop_back();
  const auto alpha = at::linspace(-1, 1, rows * tasks, at::kDouble).view({rows, tasks});
  auto out = at::empty({rows, length}, theta0.options());
  Work work;
  work.run = [=]() mutable { weights::combine(theta0, vectors, alpha, out); };
  work.flops = 2.0 * static_cast<double>(rows * tasks * length);
  work.bytes = 4.0 * static_cast<double>((1 + tasks + rows) * length);
  work.items = static_cast<double>(rows);
  work.unit = "models";
  work.last = [=] { return out.narrow(1, 0, length / 100).clone(); };
  work.tolerance = 1e-6;
  work.error = [=] {  // ATen's, in double, block by block
    double worst = 0, largest = 0;
    constexpr std::int64_t block = 1'000'000;
    for (std::int64_t begin = 0; begin < length; begin += block) {
      std::vector<at::Tensor> parts;
      for (const auto& v : vectors) parts.push_back(v.narrow(0, begin, block));
      const auto expected = at::mm(alpha.to(theta0.device()), at::stack(parts).to(at::kDouble)) +
                            theta0.narrow(0, begin, block);
      worst = std::max(worst, (out.narrow(1, begin, block) - expected).abs().max().item<double>());
      largest = std::max(largest, expected.abs().max().item<double>());
    }
    return worst / largest;
  };
  return work;
}

/// G[i,j] = ⟨τᵢ, τⱼ⟩. Bytes T·P·4; flops T·(T+1)·P.
Work gram(c10::Device device) {
  const auto vectors = random_vectors(device, tasks, 12);
  const auto matrix = std::make_shared<at::Tensor>();
  Work work;
  work.run = [=] { *matrix = weights::gram(vectors); };
  work.flops = static_cast<double>(tasks * (tasks + 1) * length);
  work.bytes = 4.0 * static_cast<double>(tasks * length);
  work.items = static_cast<double>(length);
  work.unit = "rows";
  work.last = [=] { return *matrix; };
  work.tolerance = 1e-12;
  work.error = [=] {
    auto expected = at::zeros({tasks, tasks}, at::kDouble);
    constexpr std::int64_t block = 1'000'000;
    for (std::int64_t begin = 0; begin < length; begin += block) {
      std::vector<at::Tensor> parts;
      for (const auto& v : vectors) parts.push_back(v.narrow(0, begin, block));
      const auto rows = at::stack(parts).to(at::kDouble);
      expected += at::mm(rows, rows.t()).cpu();
    }
    return ((*matrix - expected).abs().max() / expected.abs().max()).item<double>();
  };
  return work;
}

/// A method with its defaults. Bytes: T·P·4 a pass, and τ; a look at a sample is not counted. `share`: of the
/// numbers that trimming leaves.
Work merge(const std::string& method, double passes, double share, std::int64_t numbers) {
  auto vectors = random_vectors(at::kCPU, tasks, 14, numbers);
  auto config = config::Config::describing();
  const auto merger = merging::make(method, config.section("parameters", merging::entry(method).meaning));
  auto out = at::empty({numbers}, at::kFloat);
  const auto merged = std::make_shared<merging::Merged>();
  Work work;
  work.run = [=]() {
    const auto all = held(vectors);
    *merged = merger->merge(all, std::vector<double>(tasks, 1.0), merging::Sink(out));
  };
  work.bytes = 4.0 * (passes * tasks + 1) * static_cast<double>(numbers);
  work.items = static_cast<double>(numbers);
  work.unit = "numbers";
  work.tolerance = 1e-6;
  work.results = [=] {
    store::TensorFile file;
    file.tensors["tau"] = out.narrow(0, 0, 500'000);
    return file;
  };
  work.error = [=] {
    if (std::abs(merged->passes - passes) > 0.05) return 1.0;  // the bytes above would be others
    if (method == "dare_linear")                               // a random half of each, doubled
      return std::abs(out.var().item<double>() / (2.0 * tasks) - 1) < 0.01 ? 0.0 : 1.0;
    std::vector<float> cuts;
    const auto k = static_cast<std::int64_t>(share * static_cast<double>(numbers)) + 1;
    for (const auto& x : vectors) cuts.push_back(share < 1 ? kth_magnitude(x, k) : 0);
    double worst = 0;
    for (std::int64_t begin = 0; begin < numbers; begin += numbers / 4) {
      std::vector<at::Tensor> parts;
      for (const auto& x : vectors) parts.push_back(x.narrow(0, begin, 100'000));
      const auto expected = merged_by_aten(method, at::stack(parts), at::tensor(cuts));
      worst = std::max(worst, (out.narrow(0, begin, 100'000) - expected).abs().max().item<double>());
    }
    return worst / out.abs().max().item<double>();
  };
  return work;
}

/// results.h5 with one data set of the size of a large run's NTK matrices. Bytes: those of the file.
Work hdf5_write() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(13);
  const auto values = at::randn({8, 10, 64, 8, 64}, generator);
  const auto path =
      std::filesystem::temp_directory_path() / ("taugrid-bench-" + std::to_string(getpid()) + ".h5");
  Work work;
  work.run = [=] {
    store::ResultsWriter out(path, comm::Communicator(MPI_COMM_SELF));
    out.put("/ntk/pretrained/gram", values, {"task", "logit", "point", "task", "point"});
    out.commit();
  };
  work.bytes = static_cast<double>(values.nbytes());
  work.items = work.bytes;
  work.unit = "B";
  work.tolerance = 0;
  work.error = [=] {
    auto read = at::empty_like(values);
    store::Hdf5File(path).read("/ntk/pretrained/gram", store::Element::float32, read.data_ptr(),
                               read.nbytes());
    std::filesystem::remove(path);
    return at::equal(read, values) ? 0.0 : 1.0;
  };
  return work;
}

}  // namespace

std::vector<Case> weight_cases(const Fixture& fixture) {
  const auto device = fixture.runtime().device();
  return {
      {"combine", [device] { return combine(device, 1); }},
      {"combine/16_rows", [device] { return combine(device, 16); }},
      {"gram", [device] { return gram(device); }},
      {"merge/linear", [] { return merge("linear", 1, 1, length); }, false, false, true},
      {"merge/task_arithmetic", [] { return merge("task_arithmetic", 1, 1, length); }, false, false, true},
      {"merge/dare_linear", [] { return merge("dare_linear", 1, 1, length); }, false, false, true},
      {"merge/consensus_ta", [] { return merge("consensus_ta", 1, 1, length); }, false, false, true},
      {"merge/top_k", [] { return merge("top_k", 2, 0.05, length); }, false, false, true},
      {"merge/ties", [] { return merge("ties", 2, 0.2, 25'000'000); }, false, false, true},
      {"hdf5_write", [] { return hdf5_write(); }, false, false, true}};
}

}  // namespace taugrid::bench
