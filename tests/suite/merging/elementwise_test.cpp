// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/vectors/elementwise.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "suite/comm/communicator.hpp"

using namespace taugrid;
using merging::Elementwise;
using weights::MergeRule;

namespace {

constexpr std::int64_t length = 2'500'000, border = 1'100'003;  // several stretches, and parts of a team

merging::HeldVectors held(std::vector<at::Tensor> vectors) {
  return {{{"a", {border}, {0, border}}, {"b", {length - border}, {border, length - border}}},
          std::move(vectors),
          at::zeros({length})};
}

/// Two vectors of numbers, most of them of this sign, that cancel each other at the places.
std::vector<at::Tensor> cancelling(double sign, const std::vector<std::int64_t>& places) {
  at::manual_seed(7);
  std::vector<at::Tensor> vectors = {at::randn({length}) + 0.1 * sign, at::randn({length}) + 0.1 * sign};
  const auto index = at::tensor(places, at::kLong);
  vectors[1].index_copy_(0, index, -vectors[0].index_select(0, index));
  return vectors;
}

Elementwise election() {
  Elementwise method;
  method.divisor = merging::Divisor::voters;
  return method;
}

struct Made {
  at::Tensor tau;
  merging::Merged merged;
};
Made make(const Elementwise& method, const std::vector<at::Tensor>& vectors) {
  const comm::Communicator world(MPI_COMM_WORLD);
  Made outcome{at::full({length}, 9.0), {}};
  outcome.merged = method.merge(held(vectors), {1, 1}, merging::Sink(outcome.tau), merging::Team(world));
  return outcome;
}

/// A merge with the majority's sign has what one has that is told the sign.
void expect_as_told(Elementwise method, const std::vector<at::Tensor>& vectors, MergeRule::Vote vote,
                    double most_passes) {
  method.rule.vote = vote;
  const auto expected = make(method, vectors);
  method.rule.vote = MergeRule::Vote::positive;
  method.majority = true;
  const auto by_majority = make(method, vectors);
  EXPECT_TRUE(at::equal(by_majority.tau, expected.tau));
  EXPECT_EQ(by_majority.merged.density, expected.merged.density);
  EXPECT_LE(by_majority.merged.passes, expected.merged.passes + most_passes);
}

const std::vector<std::int64_t> few = {5, 4095, 4096, 700'000, border - 1, border, 2'200'000, length - 1};

TEST(Majority, OfAFewUndecidedPlacesLooksAroundThemAgain) {
  const auto method = election();
  expect_as_told(method, cancelling(-1, few), MergeRule::Vote::negative, 0.2);
  expect_as_told(method, cancelling(1, few), MergeRule::Vote::positive, 0);
}

TEST(Majority, OfManyUndecidedPlacesTakesAnotherMerge) {
  std::vector<std::int64_t> many;
  for (std::int64_t i = 0; i < length; i += 3) many.push_back(i);
  expect_as_told(election(), cancelling(-1, many), MergeRule::Vote::negative, 1);
}

TEST(Majority, CountsWhatClaimsLeave) {
  auto method = election();
  method.claim = {0.2};
  method.rule.claims = 2;
  expect_as_told(method, cancelling(-1, few), MergeRule::Vote::negative, 0.2);
}

TEST(Majority, IsTheWholeVectorsWhereCutsAndNormsAreTensors) {
  auto method = election();
  method.trim = {.density = 0.6, .by_tensor = true, .cut = "exact"};
  expect_as_told(method, cancelling(-1, few), MergeRule::Vote::negative, 0.2);
  method.trim = {.density = 1, .by_tensor = true};
  method.rule.drop = weights::Drop{.seed = 3, .density = 0.7};
  method.keeps_norm = true;
  expect_as_told(method, cancelling(-1, few), MergeRule::Vote::negative, 0.2);
}

}  // namespace
