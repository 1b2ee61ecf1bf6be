// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Masks against LibTorch's sort and logical operations, whole and stretch by stretch.
#include "kernels/weights/masks.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace {

namespace weights = taugrid::weights;

at::Tensor counted(const std::vector<at::Tensor>& vectors, const std::vector<float>& cuts,
                   std::int64_t stretch) {
  weights::MaskCount count(cuts);
  const auto length = vectors.front().numel();
  for (auto begin = (length - 1) / stretch * stretch; begin >= 0; begin -= stretch) {  // from the end
    std::vector<at::Tensor> parts;
    for (const auto& vector : vectors)
      parts.push_back(vector.narrow(0, begin, std::min(stretch, length - begin)));
    count.add({parts});
  }
  return count.counts();
}

TEST(MaskCount, IsThatOfSortedAndComparedNumbers) {
  at::manual_seed(3);
  const auto all = at::randn({4, 5000}, at::kFloat);
  all[1].narrow(0, 100, 3000).zero_();  // frozen
  all[2].mul_(4).round_();              // equal magnitudes, and zeros of either sign
  all[3].copy_(all[0]).narrow(0, 0, 2500).neg_();
  const auto vectors = all.unbind();
  for (const double density : {0.001, 0.2, 0.7, 1.0}) {
    std::vector<float> cuts;
    std::vector<at::Tensor> kept;
    for (const auto& vector : vectors) {
      const auto size = vector.abs();
      const auto k = weights::ties_rank(density, 5000);
      cuts.push_back(std::get<0>(size.sort(0, true))[k - 1].item<float>());
      kept.push_back(size.ge(cuts.back()).logical_and(vector.ne(0)));
    }
    const auto whole = counted(vectors, cuts, 5000);
    EXPECT_TRUE(whole.equal(counted(vectors, cuts, 777)));
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        const auto both = kept[i].logical_and(kept[j]);
        const auto unlike = both.logical_and(vectors[i].sign().ne(vectors[j].sign()));
        EXPECT_EQ(whole[0][i][j].item<double>(), both.sum().item<double>()) << density;
        EXPECT_EQ(whole[1][i][j].item<double>(), unlike.sum().item<double>()) << density;
      }
    }
  }
}

TEST(MaskCount, OfModelsIsThatOfTheirDifferences) {
  at::manual_seed(4);
  const auto start = at::randn({1000}, at::kFloat);
  std::vector<at::Tensor> theta, tau;
  for (int t = 0; t < 3; ++t) {
    theta.push_back(start + at::randn({1000}, at::kFloat).mul_(0.1));
    tau.push_back(theta.back() - start);
  }
  weights::MaskCount count(std::vector<float>{0.05F, 0.1F, 0.0F});
  count.add({theta, start});
  EXPECT_TRUE(count.counts().equal(counted(tau, {0.05F, 0.1F, 0.0F}, 1000)));
  EXPECT_THROW(count.add({theta, start.narrow(0, 0, 999)}), std::invalid_argument);
}

TEST(MaskCount, OfTiesAndZerosByHand) {
  const std::vector<at::Tensor> vectors = {at::tensor({1.0F, -2.0F, 0.0F, 2.0F, -0.0F}),
                                           at::tensor({-1.0F, -1.0F, 3.0F, 0.0F, 0.0F})};
  const auto counts = counted(vectors, {2.0F, 0.0F}, 5);  // keeps places 1 and 3; 0, 1 and 2
  EXPECT_TRUE(counts[0].equal(at::tensor({2.0, 1.0, 1.0, 3.0}).view({2, 2})));
  EXPECT_TRUE(counts[1].eq(0).all().item<bool>());
  const auto all = counted(vectors, {0.0F, 0.0F}, 2);
  EXPECT_TRUE(all[0].equal(at::tensor({3.0, 2.0, 2.0, 3.0}).view({2, 2})));
  EXPECT_TRUE(all[1].equal(at::tensor({0.0, 1.0, 1.0, 0.0}).view({2, 2})));
}

TEST(MaskCount, RanksAreThoseOfTies) {
  EXPECT_EQ(weights::ties_rank(0.2, 10), 3);  // ⌊0.2 n⌋ + 1
  EXPECT_EQ(weights::ties_rank(0.01, 10), 1);
  EXPECT_EQ(weights::ties_rank(1, 10), 10);
}

TEST(MaskCount, RefusesOtherVectors) {
  weights::MaskCount count(std::vector<float>{0, 0});
  const auto refuses = [&](const std::vector<at::Tensor>& vectors) {
    EXPECT_THROW(count.add({vectors}), std::invalid_argument);
  };
  refuses({at::zeros({3})});
  refuses({at::zeros({3}), at::zeros({4})});
  refuses({at::zeros({3}, at::kDouble), at::zeros({3}, at::kDouble)});
}

}  // namespace
