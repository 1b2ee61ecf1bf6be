// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "suite/comm/communicator.hpp"
#include "suite/merging/matrices/on_matrices.hpp"
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
  MergedMatrices matrices{at::full({numbers}, 9.0), {}, 0};
  matrices.merged = method.merge(held, {1, 0.5, 2}, merging::Sink(matrices.tau), team);
  matrices.visited = held.visited();
  return matrices;
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

/// [m,n] with these singular values and random factors.
at::Tensor matrix_of(std::int64_t m, std::int64_t n, const at::Tensor& values) {
  const auto orthonormal = [&](std::int64_t size) {
    return std::get<0>(at::linalg_qr(at::randn({size, values.size(0)}, at::kDouble)));
  };
  return at::mm(orthonormal(m) * values, orthonormal(n).t());
}

/// How far columns are from orthonormal.
double skew(const at::Tensor& columns) {
  return (at::mm(columns.t(), columns) - at::eye(columns.size(1), at::kDouble)).abs().max().item<double>();
}

// The oracle is LAPACK's SVD. Where values fall by more than 1e-4, squares would lose the small ones, and an
// SVD is taken.
TEST(FactorsOfMatrices, AreThoseOfAnSvd) {
  at::manual_seed(3);
  const auto tens = [](double to, std::int64_t count) { return at::logspace(0, to, count, 10, at::kDouble); };
  for (const auto& values : {tens(-1, 12), tens(-3, 12), tens(-7, 12), tens(-2, 5)}) {
    for (const auto& [m, n] : {std::pair{40, 12}, {12, 12}, {12, 30}}) {
      const auto matrix = matrix_of(m, n, values);
      const auto [u, s, vh] = merging::thin_svd(matrix);
      for (const bool low_rank : {false, true}) {
        const auto [left, singular, right] = merging::leading({1, {}, low_rank}, matrix, 4);
        EXPECT_LT((singular - s.narrow(0, 0, 4)).abs().max().item<double>(), 1e-12);
        EXPECT_LT((at::mm(left * singular, right) -
                   at::mm(u.narrow(1, 0, 4) * s.narrow(0, 0, 4), vh.narrow(0, 0, 4)))
                      .abs()
                      .max()
                      .item<double>(),
                  1e-9);
        EXPECT_LT(std::max(skew(left), skew(right.t())), 1e-8);
      }
      if (values.size(0) < 12) continue;  // of a lower rank nothing determines all directions, nor the factor
      // All of them: those that fall furthest have no Gram matrix that is exact enough.
      const auto [left, singular, right] = merging::leading({1, {}, false}, matrix, 12);
      EXPECT_LT((singular - s).abs().max().item<double>(), 1e-10);
      EXPECT_LT((at::mm(left * singular, right) - matrix).abs().max().item<double>(), 1e-8);
      EXPECT_LT(std::max(skew(left), skew(right.t())), 1e-8);
      const auto [factor, all] = merging::polar(matrix);
      EXPECT_LT((std::get<0>(all.sort()) - std::get<0>(s.sort())).abs().max().item<double>(), 1e-8);
      EXPECT_LT((factor - at::mm(u, vh)).abs().max().item<double>(), 1e-8);
    }
  }
}

TEST(FactorsOfMatrices, LowRanksKeepWhatIsThere) {
  at::manual_seed(4);
  const auto matrix = matrix_of(30, 20, at::tensor({3.0, 1.0}, at::kDouble));
  const auto [left, values, right] = merging::leading({1, {}, true}, matrix, 5);
  EXPECT_EQ(values.size(0), 2);
  EXPECT_LT((at::mm(left * values, right) - matrix).abs().max().item<double>(), 1e-12);
  const auto nothing = merging::leading({1, {}, true}, at::zeros({4, 6}, at::kDouble), 2);
  EXPECT_EQ(std::get<1>(nothing).size(0), 0);
  EXPECT_EQ(std::get<0>(nothing).size(0), 4);
  const auto zeros = merging::leading({1, {}, false}, at::zeros({4, 6}, at::kDouble), 2);
  EXPECT_TRUE(at::equal(std::get<1>(zeros), at::zeros({2}, at::kDouble)));
  EXPECT_FALSE(merging::polar(at::zeros({4, 6}, at::kDouble)).factor.isnan().any().item<bool>());
}

}  // namespace
