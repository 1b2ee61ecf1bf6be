// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/merging/table.hpp"

using namespace taugrid;

namespace {

/// Seven matrices and two that a name excludes, biases and a filter between them, a tensor of nothing, and
/// three that a team exchanges part by part, some of which end in the midst of one.
std::vector<merging::NamedTensor> tensors_of_all_kinds() {
  std::vector<merging::NamedTensor> all;
  std::int64_t begin = 0;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const auto size : shape) count *= size;
    all.push_back({name, shape, {begin, count}});
    begin += count;
  };
  add("words", {60, 8});
  add("nothing", {0, 8});
  for (const auto* layer : {"first", "second", "third"}) {
    add(std::string(layer) + ".in", {24, 8});
    add(std::string(layer) + ".bias", {24});
    add(std::string(layer) + ".out", {8, 24});
  }
  add("filter", {4, 3, 2, 2});
  add("text_projection", {8, 8});
  add("visual.text_projection", {6, 8});
  add("long", {1'500'000});
  add("shorter", {700'001});
  add("shortest", {700'003});
  return all;
}

struct MergedMatrices {
  at::Tensor tau;
  merging::Merged merged;
  std::int64_t visited;  ///< numbers, by this rank
};

MergedMatrices merged_matrices(const merging::VectorMethod& method, const merging::Team& team) {
  at::manual_seed(11);
  const auto numbers = tensors_of_all_kinds().back().range.end();
  std::vector<at::Tensor> vectors;
  for (int t = 0; t < 3; ++t) vectors.push_back(at::randn({numbers}));
  const merging::HeldVectors held(tensors_of_all_kinds(), vectors, at::zeros({numbers}));
  MergedMatrices made{at::full({numbers}, 9.0), {}, 0};
  made.merged = method.merge(held, {1, 0.5, 2}, merging::Sink(made.tau), team);
  made.visited = held.visited();
  return made;
}

TEST(MethodsOnMatrices, OfATeamMakeWhatOneRankMakes) {
  const comm::Communicator world(MPI_COMM_WORLD);
  for (const std::string name : {"tsv_m", "iso_c", "iso_cts", "wudi", "cart", "dc_merge"}) {
    auto config = config::Config::describing();
    const auto method = merging::make(name, config.section("parameters", merging::entry(name).meaning));
    const auto alone = merged_matrices(*method, {}),
               together = merged_matrices(*method, merging::Team(world));
    EXPECT_TRUE(at::equal(together.tau, alone.tau)) << name;
    EXPECT_EQ(together.merged.density, alone.merged.density) << name;
    EXPECT_EQ(together.merged.passes, 1) << name;
    EXPECT_EQ(alone.merged.passes, 1) << name;
    EXPECT_EQ(alone.visited, 3 * alone.tau.numel()) << name;
    // Each rank of several makes some of the tensors.
    if (world.size() > 1) {
      EXPECT_LT(together.visited, alone.visited) << name;
    }
    EXPECT_EQ((alone.tau == 9).sum().item<std::int64_t>(), 0) << name;  // every number came
  }
}

}  // namespace
