// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/metrics/metrics.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace {

namespace metrics = taugrid::metrics;
constexpr double infinity = std::numeric_limits<double>::infinity();

double number(const at::Tensor& scalar) { return scalar.to(at::kDouble).item<double>(); }

// Straight from the definition, in long double.
std::vector<long double> softmax(const at::Tensor& row) {
  const at::Tensor values = row.to(at::kDouble).contiguous();
  const auto* x = values.const_data_ptr<double>();
  std::vector<long double> p(static_cast<std::size_t>(values.numel()));
  long double sum = 0;
  for (std::size_t c = 0; c < p.size(); ++c) sum += p[c] = std::exp(static_cast<long double>(x[c]));
  for (auto& value : p) value /= sum;
  return p;
}

double kl_by_definition(const at::Tensor& logits_p, const at::Tensor& logits_q) {
  long double sum = 0;
  for (std::int64_t n = 0; n < logits_p.size(0); ++n) {
    const auto p = softmax(logits_p[n]), q = softmax(logits_q[n]);
    for (std::size_t c = 0; c < p.size(); ++c) sum += p[c] * std::log(p[c] / q[c]);
  }
  return static_cast<double>(sum);
}

/// The first of both directions; the other one is that of the exchanged arguments.
double kl(const at::Tensor& logits_p, const at::Tensor& logits_q) {
  const at::Tensor both = metrics::kl_sums(logits_p, logits_q);
  EXPECT_TRUE(at::allclose(both, metrics::kl_sums(logits_q, logits_p).flip(0), 0, 0, /*equal_nan=*/true));
  return number(both[0]);
}

TEST(Metrics, PredictionsCorrectAndDisagreements) {
  const at::Tensor logits = at::tensor({1.0F, 2.0F, 0.0F, 5.0F, -1.0F, 4.0F}).view({2, 3});
  const at::Tensor labels = at::tensor({1, 2}, at::kInt);
  EXPECT_TRUE(at::equal(metrics::predictions(logits), at::tensor({1, 0}, at::kLong)));
  EXPECT_EQ(number(metrics::correct(logits, labels)), 1);
  EXPECT_TRUE(at::equal(metrics::correctness(logits, labels), at::tensor({1, 0}).to(at::kBool)));
  EXPECT_DOUBLE_EQ(number(metrics::accuracy(logits, labels)), 1.0 / static_cast<double>(labels.size(0)));
  EXPECT_EQ(number(metrics::disagreements(metrics::predictions(logits), labels)), 1);
  EXPECT_EQ(number(metrics::disagreements(labels, labels)), 0);
}

TEST(Metrics, BitsArePackedFromTheHighestDown) {
  at::manual_seed(6);
  for (const std::int64_t n : {1, 7, 8, 9, 24, 37}) {
    const auto truths = at::rand({2, 3, n}).gt(0.5);
    const auto packed = metrics::packed_bits(truths);
    ASSERT_EQ(packed.scalar_type(), at::kByte);
    ASSERT_EQ(packed.sizes(), at::IntArrayRef({2, 3, (n + 7) / 8}));
    for (std::int64_t i = 0; i < 8 * packed.size(-1); ++i) {
      const auto bit = packed.select(-1, i / 8).bitwise_right_shift(7 - i % 8).bitwise_and(1).to(at::kBool);
      const auto expected = i < n ? truths.select(-1, i) : at::zeros({2, 3}, at::kBool);
      EXPECT_TRUE(at::equal(bit, expected)) << n << " " << i;
    }
  }
  EXPECT_EQ(metrics::packed_bits(at::zeros({3, 0}, at::kBool)).numel(), 0);
  EXPECT_THROW(metrics::packed_bits(at::zeros({3})), std::invalid_argument);
}

TEST(Metrics, ChosenRowHasTheLargestMeanOfAccuracyOverOwn) {
  const auto single = at::tensor({0.5, 0.8, 0.0}, at::kDouble);  // the third counts as 0, whatever it is
  // 0.5 + 1 of 2; 1 + 0.5; equal to the one before; 0.4 + 0.5 though its plain mean is the largest.
  const auto accuracy =
      at::tensor({0.25, 0.8, 0.1, 0.5, 0.4, 0.3, 0.5, 0.4, 0.9, 0.2, 0.4, 1.0}, at::kDouble).view({4, 3});
  EXPECT_EQ(metrics::chosen_row(accuracy, single), 0);
  EXPECT_EQ(metrics::chosen_row(accuracy.slice(0, 1), single), 0);
  EXPECT_EQ(metrics::chosen_row(accuracy.flip(0), single), 1);
  EXPECT_DOUBLE_EQ(number(metrics::normalised_accuracy(accuracy, single)[0]), 0.5);
  EXPECT_THROW(metrics::chosen_row(accuracy[0], single), std::invalid_argument);
  EXPECT_THROW(metrics::chosen_row(accuracy.narrow(0, 0, 0), single), std::invalid_argument);
}

TEST(Metrics, TasksWithoutAnAccuracyDoNotCount) {
  const double none = std::nan("");
  const auto single = at::tensor({0.5, 0.8, 0.0}, at::kDouble);
  const auto accuracy = at::tensor({0.25, none, none, 0.3, none, none}, at::kDouble).view({2, 3});
  EXPECT_DOUBLE_EQ(number(metrics::normalised_accuracy(accuracy, single)[0]), 0.5);
  EXPECT_EQ(metrics::chosen_row(accuracy, single), 1);
  EXPECT_DOUBLE_EQ(number(metrics::mean_accuracy(accuracy)[1]), 0.3);
  EXPECT_DOUBLE_EQ(number(metrics::mean_accuracy(single)), 1.3 / 3);
}

TEST(Metrics, MajorityIsTheMostFrequentLabelsShare) {
  EXPECT_DOUBLE_EQ(number(metrics::largest_share(at::tensor({2, 0, 2, 5, 2}, at::kLong))), 0.6);
  EXPECT_DOUBLE_EQ(number(metrics::largest_share(at::tensor({1, 0}, at::kInt))), 0.5);
  EXPECT_THROW(metrics::largest_share(at::zeros({0}, at::kLong)), std::invalid_argument);
}

TEST(Metrics, CrossEntropyMatchesItsDefinition) {
  at::manual_seed(1);
  const at::Tensor logits = 5 * at::randn({50, 7});
  const at::Tensor labels = at::randint(7, {50}, at::kInt);
  long double expected = 0;
  for (std::int64_t n = 0; n < 50; ++n) {
    expected -= std::log(softmax(logits[n])[static_cast<std::size_t>(labels[n].item<int>())]);
  }
  EXPECT_NEAR(number(metrics::cross_entropy_sum(logits, labels)), static_cast<double>(expected), 1e-10);
}

TEST(Metrics, CrossEntropyAddsUpOverShards) {
  at::manual_seed(2);
  const at::Tensor logits = at::randn({100, 10}), labels = at::randint(10, {100}, at::kLong);
  const double parts = number(metrics::cross_entropy_sum(logits.narrow(0, 0, 33), labels.narrow(0, 0, 33))) +
                       number(metrics::cross_entropy_sum(logits.narrow(0, 33, 67), labels.narrow(0, 33, 67)));
  EXPECT_NEAR(parts, number(metrics::cross_entropy_sum(logits, labels)), 1e-10);
}

TEST(Metrics, CrossEntropyOfLargeLogitsDoesNotOverflow) {
  const at::Tensor logits = at::tensor({1e4F, 0.0F}).view({1, 2});
  EXPECT_EQ(number(metrics::cross_entropy_sum(logits, at::tensor({1}, at::kLong))), 1e4);
  EXPECT_EQ(number(metrics::cross_entropy_sum(logits, at::tensor({0}, at::kLong))), 0);
}

TEST(Metrics, KlMatchesItsDefinition) {
  at::manual_seed(3);
  const at::Tensor p = 3 * at::randn({40, 9}), q = 3 * at::randn({40, 9});
  EXPECT_NEAR(kl(p, q), kl_by_definition(p, q), 1e-10);
  EXPECT_EQ(kl(p, p), 0);
  EXPECT_NEAR(kl(p, p + 100), 0, 1e-4);  // float32 logits, rounded by the shift
}

// In float32 the log-probabilities' rounding alone would be a thousand times this.
TEST(Metrics, KlOfNearlyEqualModels) {
  const at::Tensor p = at::zeros({1, 2});
  const at::Tensor q = at::tensor({1e-5F, 0.0F}).view({1, 2});
  EXPECT_NEAR(kl(p, q), 1e-10 / 8, 1e-14);
}

TEST(Metrics, KlAtTheEdges) {
  const at::Tensor certain = at::tensor({0.0, -infinity}).view({1, 2}), even = at::zeros({1, 2}, at::kDouble);
  EXPECT_DOUBLE_EQ(kl(certain, even), std::log(2.0));
  EXPECT_EQ(kl(even, certain), infinity);
  EXPECT_EQ(kl(certain, certain), 0);
  EXPECT_TRUE(std::isnan(kl(at::full({1, 2}, std::nan("")), even)));
}

TEST(Metrics, NoExamples) {
  const at::Tensor logits = at::empty({0, 4}), labels = at::empty({0}, at::kLong);
  EXPECT_EQ(number(metrics::correct(logits, labels)), 0);
  EXPECT_EQ(number(metrics::cross_entropy_sum(logits, labels)), 0);
  EXPECT_EQ(kl(logits, logits), 0);
}

TEST(Metrics, RejectWrongArguments) {
  const at::Tensor logits = at::zeros({2, 3}), labels = at::zeros({2}, at::kLong);
  EXPECT_THROW(metrics::predictions(at::zeros({3})), std::invalid_argument);
  EXPECT_THROW(metrics::predictions(at::zeros({2, 0})), std::invalid_argument);
  EXPECT_THROW(metrics::predictions(at::Tensor()), std::invalid_argument);
  EXPECT_THROW(metrics::correct(logits, at::zeros({3}, at::kLong)), std::invalid_argument);
  EXPECT_THROW(metrics::correct(logits, at::zeros({2})), std::invalid_argument);
  EXPECT_THROW(metrics::cross_entropy_sum(logits, labels + 3), std::invalid_argument);
  EXPECT_THROW(metrics::cross_entropy_sum(logits, labels - 1), std::invalid_argument);
  EXPECT_THROW(metrics::disagreements(labels, at::zeros({3}, at::kLong)), std::invalid_argument);
  EXPECT_THROW(metrics::kl_sums(logits, at::zeros({2, 4})), std::invalid_argument);
}

}  // namespace
