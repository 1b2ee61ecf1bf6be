// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Against the definitions on whole features, in double; statistics against sorting and counting by hand.
#include "kernels/metrics/linearity.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace {

namespace metrics = taugrid::metrics;

struct Features {
  at::Tensor first, second, start, mixed;  // [N, M]
};

/// Products of differences from f0, as the definitions of linearity() name them.
metrics::Linearity of(const Features& f, double alpha) {
  const auto a = f.first - f.start, b = f.second - f.start, c = f.mixed - f.start;
  const auto rows = at::stack({a, b, f.start}, 1);
  const auto mixed = metrics::inner_products(c.unsqueeze(1), at::stack({a, b, f.start, c}, 1)).squeeze(1);
  return metrics::linearity(mixed, metrics::inner_products(rows, rows), alpha);
}

at::Tensor cosine(const at::Tensor& x, const at::Tensor& y) { return at::cosine_similarity(x, y, 1, 0); }
at::Tensor coefficient(const at::Tensor& x, const at::Tensor& y) {
  return x.norm(2, 1) * cosine(x, y) / y.norm(2, 1);
}

void expect_close(const at::Tensor& ours, const at::Tensor& expected, double tolerance) {
  EXPECT_TRUE(at::allclose(ours, expected, tolerance, tolerance)) << ours << expected;
}

TEST(Linearity, MatchesTheDefinitionsOnWholeFeatures) {
  at::manual_seed(4);
  for (const double distance : {1.0, 1e-3}) {
    Features f;
    f.start = at::randn({6, 40}, at::kDouble);
    f.first = f.start + distance * at::randn({6, 40}, at::kDouble);
    f.second = f.start + distance * at::randn({6, 40}, at::kDouble);
    for (const double alpha : {0.25, 0.5, 0.75, 1.0, -0.4}) {
      const auto v = alpha * f.first + (1 - alpha) * f.second;
      f.mixed = v + 0.1 * distance * at::randn({6, 40}, at::kDouble);
      const auto measures = of(f, alpha);
      expect_close(measures.cosine, cosine(f.mixed, v), 1e-13);
      expect_close(measures.coefficient, coefficient(f.mixed, v), 1e-13);
      expect_close(measures.baseline, cosine(f.first, f.second), 1e-13);
      expect_close(measures.centred_cosine, cosine(f.mixed - f.start, v - f.start), 1e-9);
      expect_close(measures.centred_coefficient, coefficient(f.mixed - f.start, v - f.start), 1e-9);
      expect_close(measures.centred_baseline, cosine(f.first - f.start, f.second - f.start), 1e-9);
      expect_close(measures.error, (f.mixed - v).norm(2, 1) / (f.first - f.second).norm(2, 1), 1e-9);
    }
  }
}

TEST(Linearity, OfAnAverageMatchesTheDefinitionsOnWholeFeatures) {
  at::manual_seed(8);
  for (const std::int64_t k : {2, 3, 5}) {
    const auto start = at::randn({6, 40}, at::kDouble),
               models = start.unsqueeze(1) + at::randn({6, k, 40}, at::kDouble);
    const auto v = models.mean(1), u = v + 0.1 * at::randn({6, 40}, at::kDouble);
    const auto a = models - start.unsqueeze(1), c = u - start;
    const auto rows = at::stack({a.mean(1), c, start}, 1);
    const auto products =
        at::stack({a.square().sum(-1), (a * start.unsqueeze(1)).sum(-1), (a * c.unsqueeze(1)).sum(-1)}, -1);
    const auto measures = metrics::average_linearity(products, metrics::inner_products(rows, rows));
    expect_close(measures.cosine, cosine(u, v), 1e-12);
    expect_close(measures.coefficient, coefficient(u, v), 1e-12);
    expect_close(measures.centred_cosine, cosine(c, v - start), 1e-12);
    expect_close(measures.centred_coefficient, coefficient(c, v - start), 1e-12);
    auto base = at::zeros({6}, at::kDouble), centred = base.clone(), squares = base.clone();
    for (std::int64_t i = 0; i < k; ++i) {
      base += cosine(u, models.select(1, i)) / k;
      centred += cosine(c, a.select(1, i)) / k;
      for (std::int64_t j = 0; j < i; ++j)
        squares += (models.select(1, i) - models.select(1, j)).square().sum(1);
    }
    expect_close(measures.baseline, base, 1e-12);
    expect_close(measures.centred_baseline, centred, 1e-12);
    expect_close(measures.error, (u - v).norm(2, 1) / (squares * 2.0 / (k * (k - 1))).sqrt(), 1e-10);
    if (k > 2) continue;  // of two what linearity() says, but for the baselines
    const auto pair = of({models.select(1, 0), models.select(1, 1), start, u}, 0.5);
    expect_close(measures.error, pair.error, 1e-10);
    expect_close(measures.centred_coefficient, pair.centred_coefficient, 1e-12);
  }
  const auto whole = at::zeros({2, 3, 3}, at::kDouble);
  EXPECT_THROW(metrics::average_linearity(at::zeros({2, 1, 3}, at::kDouble), whole), std::invalid_argument);
  EXPECT_THROW(metrics::average_linearity(at::zeros({3, 2, 3}, at::kDouble), whole), std::invalid_argument);
}

// Products of features of float32 themselves would lose an error of 10⁻⁵ of what the models share.
TEST(Linearity, ASmallErrorBesideALargeCommonPart) {
  at::manual_seed(5);
  Features f;
  f.start = 100 * at::randn({4, 300});
  f.first = f.start + at::randn({4, 300});
  f.second = f.start + at::randn({4, 300});
  f.mixed = (f.first + f.second) / 2 + 0.01 * at::randn({4, 300});
  const auto v = (f.first.to(at::kDouble) + f.second.to(at::kDouble)) / 2;
  const auto distance = (f.first.to(at::kDouble) - f.second.to(at::kDouble)).norm(2, 1);
  expect_close(of(f, 0.5).error, (f.mixed.to(at::kDouble) - v).norm(2, 1) / distance, 1e-5);
  expect_close(1 - of(f, 0.5).cosine, 1 - cosine(f.mixed.to(at::kDouble), v), 1e-12);
}

TEST(Linearity, ExactLinearity) {
  at::manual_seed(6);
  Features f{at::randn({3, 10}), at::randn({3, 10}), at::randn({3, 10}), {}};
  f.mixed = 0.25 * f.first + 0.75 * f.second;
  const auto measures = of(f, 0.25);
  for (const auto& measure :
       {measures.cosine, measures.coefficient, measures.centred_cosine, measures.centred_coefficient})
    expect_close(measure, at::ones({3}, at::kDouble), 1e-6);
  expect_close(measures.error, at::zeros({3}, at::kDouble), 1e-6);
  f.first = f.second = f.mixed = f.start;  // nothing was changed: an angle to nothing is none
  EXPECT_TRUE(of(f, 0.25).centred_cosine.isnan().all().item<bool>());
  EXPECT_TRUE(of(f, 0.25).error.isnan().all().item<bool>());
}

TEST(Linearity, SummaryOfSortedValues) {
  at::manual_seed(7);
  const auto values = at::randn({3, 2, 10}, at::kDouble);
  const auto summary = metrics::summary(values);
  ASSERT_EQ(summary.sizes(), at::IntArrayRef({3, 2, 5}));
  expect_close(summary.select(-1, 0), values.mean(-1), 1e-14);
  expect_close(summary.select(-1, 1), values.std(-1, /*unbiased=*/true), 1e-14);
  for (int k = 1; k <= 3; ++k)
    expect_close(summary.select(-1, k + 1), at::quantile(values, 0.25 * k, -1), 1e-14);
  const auto single = metrics::summary(at::full({1}, 3.0, at::kDouble));
  EXPECT_EQ(single[3].item<double>(), 3);
  EXPECT_TRUE(std::isnan(single[1].item<double>()));
  EXPECT_TRUE(metrics::summary(at::tensor({1.0, std::nan(""), 2.0}, at::kDouble)).isnan().all().item<bool>());
  EXPECT_THROW(metrics::summary(at::empty({2, 0}, at::kDouble)), std::invalid_argument);
}

TEST(Linearity, HistogramCountsEachValueOnce) {
  const std::vector<double> edges = {-1, 0, 0.5, 1};
  const auto values = at::tensor({-3.0, -1.0, -0.1, 0.0, 0.49, 0.5, 1.0, 7.0, std::nan("")}, at::kDouble);
  EXPECT_TRUE(at::equal(metrics::histogram(values, edges), at::tensor({3, 2, 3}, at::kLong)));
  const auto rows = metrics::histogram(at::stack({values, values.flip(0)}), edges);
  EXPECT_TRUE(at::equal(rows[0], rows[1]));
  EXPECT_THROW(metrics::histogram(values, {1, 1}), std::invalid_argument);
}

TEST(Linearity, RejectsOtherShapes) {
  EXPECT_THROW(metrics::inner_products(at::zeros({2, 3}), at::zeros({2, 3})), std::invalid_argument);
  EXPECT_THROW(metrics::inner_products(at::zeros({2, 1, 3}), at::zeros({2, 1, 4})), std::invalid_argument);
  const auto frame = at::zeros({2, 3, 3}, at::kDouble);
  EXPECT_THROW(metrics::linearity(at::zeros({2, 3}, at::kDouble), frame, 0.5), std::invalid_argument);
  EXPECT_THROW(metrics::linearity(at::zeros({3, 4}, at::kDouble), frame, 0.5), std::invalid_argument);
  EXPECT_THROW(metrics::linearity(at::zeros({2, 4}), frame, 0.5), std::invalid_argument);
}

}  // namespace
