// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Partitions against the best of all partitions, eigenvalues against Jacobi's method on the matrices as
// written.
#include "kernels/spectral/clustering.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace taugrid {
namespace {

using Labels = std::vector<std::int64_t>;

/// Symmetric, of unit diagonal: `inside` within blocks, `across` between them, and noise.
at::Tensor blocks(const Labels& labels, double inside, double across, double noise, std::uint64_t seed) {
  at::manual_seed(seed);
  const auto t = static_cast<std::int64_t>(labels.size());
  auto m = at::full({t, t}, across, at::kDouble);
  for (std::int64_t i = 0; i < t; ++i)
    for (std::int64_t j = 0; j < t; ++j)
      if (labels[static_cast<std::size_t>(i)] == labels[static_cast<std::size_t>(j)]) m[i][j] = inside;
  const auto e = noise * at::randn({t, t}, at::kDouble);
  return (m + (e + e.t()) / 2).fill_diagonal_(1);
}

/// Eigenvalues by Jacobi rotations.
std::vector<double> jacobi(const at::Tensor& matrix) {
  const auto n = matrix.size(0);
  auto a = matrix.clone();
  auto at_ = a.accessor<double, 2>();
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        if (std::abs(at_[p][q]) < 1e-300) continue;
        const double angle = 0.5 * std::atan2(2 * at_[p][q], at_[q][q] - at_[p][p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = at_[k][p], y = at_[k][q];
          at_[k][p] = c * x - s * y;
          at_[k][q] = s * x + c * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = at_[p][k], y = at_[q][k];
          at_[p][k] = c * x - s * y;
          at_[q][k] = s * x + c * y;
        }
      }
    }
  }
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(at_[i][i]);
  std::sort(values.begin(), values.end());
  return values;
}

TEST(Clustering, EigenvaluesOfBothLaplacians) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto m = blocks({0, 0, 1, 1, 1, 2, 2}, 0.4, -0.05, 0.1, seed);
    const auto eigenvalues = spectral::laplacian_eigenvalues(m);
    const auto w = m.abs().fill_diagonal_(0);
    auto normalised = at::eye(7, at::kDouble);
    for (int i = 0; i < 7; ++i)
      for (int j = 0; j < 7; ++j) normalised[i][j] -= w[i][j] / (w[i].sum() * w[j].sum()).sqrt();
    const auto plain = jacobi(at::diag(w.sum(1)) - w), scaled = jacobi(normalised);
    for (std::int64_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(eigenvalues.unnormalised[i].item<double>(), plain[static_cast<std::size_t>(i)], 1e-10);
      EXPECT_NEAR(eigenvalues.normalised[i].item<double>(), scaled[static_cast<std::size_t>(i)], 1e-10);
    }
    EXPECT_NEAR(eigenvalues.unnormalised[0].item<double>(), 0, 1e-12);
  }
}

TEST(Clustering, TheLargestGapIsNeverTheFirst) {
  const auto of = [](std::vector<double> values) {
    return spectral::largest_gap(at::tensor(values, at::kDouble));
  };
  EXPECT_EQ(of({0, 5, 6, 9, 9.5}), 3);  // λ4 − λ3; λ2 − λ1 is larger, and does not count
  EXPECT_EQ(of({0, 1, 5}), 2);
  EXPECT_EQ(of({0, 1}), 2);
  EXPECT_EQ(of({0}), 1);
}

TEST(Clustering, FindsBlocksWhateverTheirSign) {
  const Labels expected = {0, 1, 0, 2, 1, 2, 0, 1};
  for (const double inside : {0.5, -0.5}) {
    const auto m = blocks(expected, inside, 0.02, 0.01, 3);
    EXPECT_EQ(spectral::spectral_partition(m, 3, 0), expected);
    EXPECT_EQ(spectral::largest_gap(spectral::laplacian_eigenvalues(m).unnormalised), 3);
  }
}

/// The objective of k-means on the rows of the embedding.
double objective(const at::Tensor& rows, const Labels& labels, std::int64_t k) {
  double all = 0;
  for (std::int64_t c = 0; c < k; ++c) {
    std::vector<std::int64_t> members;
    for (std::size_t t = 0; t < labels.size(); ++t)
      if (labels[t] == c) members.push_back(static_cast<std::int64_t>(t));
    if (members.empty()) return std::numeric_limits<double>::infinity();
    const auto part = rows.index_select(0, at::tensor(members, at::kLong));
    all += (part - part.mean(0)).square().sum().item<double>();
  }
  return all;
}

/// Calls see(labels) for each partition of T tasks into k clusters, once.
void each_partition(Labels& labels, std::size_t at, std::int64_t used, std::int64_t k,
                    const std::function<void()>& see) {
  if (at == labels.size()) {
    if (used == k) see();
    return;
  }
  for (std::int64_t c = 0; c <= std::min(used, k - 1); ++c) {
    labels[at] = c;
    each_partition(labels, at + 1, std::max(used, c + 1), k, see);
  }
}

TEST(Clustering, IsTheBestOfAllPartitions) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto m = blocks({0, 0, 0, 1, 1, 2, 2, 3}, 0.2, 0.05, 0.1, 20 + seed);
    const auto w = m.abs().fill_diagonal_(0);
    const auto degree = w.sum(1).sqrt();
    const auto vectors = std::get<1>(at::linalg_eigh(w / degree.outer(degree)));
    for (std::int64_t k = 1; k <= 8; ++k) {
      const auto leading = vectors.narrow(1, 8 - k, k);
      const auto rows = leading / leading.norm(2, {1}, true);
      double best = std::numeric_limits<double>::infinity();
      Labels labels(8);
      each_partition(labels, 0, 0, k, [&] { best = std::min(best, objective(rows, labels, k)); });
      const auto partition = spectral::spectral_partition(m, k, seed);
      EXPECT_NEAR(objective(rows, partition, k), best, 1e-9) << "k = " << k;
      EXPECT_EQ(partition, spectral::in_order(partition));
    }
  }
}

TEST(Clustering, TasksThatResembleNoneAreTheirOwn) {
  auto m = at::eye(4, at::kDouble);
  m[0][1] = m[1][0] = 0.5;
  const auto eigenvalues = spectral::laplacian_eigenvalues(m);
  EXPECT_TRUE(at::isfinite(eigenvalues.normalised).all().item<bool>());
  EXPECT_EQ(spectral::spectral_partition(m, 4, 0), (Labels{0, 1, 2, 3}));
  EXPECT_EQ(spectral::spectral_partition(m, 1, 0), (Labels{0, 0, 0, 0}));
}

TEST(Clustering, IsSplitWhereVectorsPointApart) {
  // Tasks 0 to 4 resemble each other, 1 and 4 with the other sign; 5 to 7 do, a little below 0.
  auto m = blocks({0, 0, 0, 0, 0, 1, 1, 1}, 0.6, 0.0, 0.01, 5);
  for (const std::int64_t t : {1, 4}) {
    m[t].mul_(-1);
    m.select(1, t).mul_(-1);
  }
  m[6][7] = m[7][6] = -0.05;
  const Labels both = {0, 0, 0, 0, 0, 1, 1, 1};
  EXPECT_EQ(spectral::spectral_partition(m, 2, 0), both);
  EXPECT_EQ(spectral::split_by_sign(m, both, -0.1, 0), (Labels{0, 1, 0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(spectral::split_by_sign(m, both, -1, 0), both);
  const auto pair = at::tensor({1.0, -0.3, -0.3, 1.0}, at::kDouble).view({2, 2});
  EXPECT_EQ(spectral::split_by_sign(pair, {0, 0}, -0.2, 0), (Labels{0, 1}));
  EXPECT_THROW(spectral::split_by_sign(pair, {0}, -0.2, 0), std::invalid_argument);
}

TEST(Clustering, TheRandIndexIsCorrectedForChance) {
  EXPECT_EQ(spectral::adjusted_rand_index({0, 1, 1, 2}, {5, 3, 3, 0}), 1);
  EXPECT_EQ(spectral::adjusted_rand_index({0, 0, 0}, {1, 1, 1}), 1);
  // scikit-learn's documentation: 0.57… of these, 0 of one cluster beside single tasks.
  EXPECT_NEAR(spectral::adjusted_rand_index({0, 0, 1, 1}, {0, 0, 1, 2}), 4.0 / 7, 1e-12);
  EXPECT_NEAR(spectral::adjusted_rand_index({0, 0, 0, 0}, {0, 1, 2, 3}), 0, 1e-12);
  double sum = 0;  // over all partitions of the same sizes
  Labels b = {0, 0, 0, 1, 1};
  int count = 0;
  do {
    sum += spectral::adjusted_rand_index({0, 0, 1, 1, 2}, b);
    ++count;
  } while (std::next_permutation(b.begin(), b.end()));
  EXPECT_NEAR(sum / count, 0, 1e-12);
  EXPECT_THROW(spectral::adjusted_rand_index({0}, {0, 1}), std::invalid_argument);
}

TEST(Clustering, RefusesWhatIsNoSimilarity) {
  EXPECT_THROW(spectral::laplacian_eigenvalues(at::zeros({2, 3}, at::kDouble)), std::invalid_argument);
  EXPECT_THROW(spectral::laplacian_eigenvalues(at::zeros({2, 2})), std::invalid_argument);
  EXPECT_THROW(spectral::laplacian_eigenvalues(at::full({2, 2}, std::nan(""), at::kDouble)),
               std::invalid_argument);
  const auto m = at::eye(3, at::kDouble);
  EXPECT_THROW(spectral::spectral_partition(m, 0, 0), std::invalid_argument);
  EXPECT_THROW(spectral::spectral_partition(m, 4, 0), std::invalid_argument);
}

}  // namespace
}  // namespace taugrid
