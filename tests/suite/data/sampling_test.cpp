// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "suite/data/packed.hpp"
#include "suite/error.hpp"

namespace {

using taugrid::data::sample_rows;

TEST(SampleRows, AreSortedAndDifferent) {
  for (const std::int64_t wanted : {0, 1, 7, 99, 100}) {
    const auto rows = sample_rows(100, wanted, 3);
    ASSERT_EQ(rows.numel(), wanted);
    EXPECT_EQ(rows.scalar_type(), torch::kInt64);
    const auto* value = rows.data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < wanted; ++i) {
      EXPECT_TRUE(value[i] >= 0 && value[i] < 100);
      EXPECT_TRUE(i == 0 || value[i - 1] < value[i]);
    }
  }
}

TEST(SampleRows, DependOnTheSeedAlone) {
  EXPECT_TRUE(torch::equal(sample_rows(1000, 10, 1), sample_rows(1000, 10, 1)));
  EXPECT_FALSE(torch::equal(sample_rows(1000, 10, 1), sample_rows(1000, 10, 2)));
  // Written down once: other platforms must draw the same rows.
  EXPECT_TRUE(torch::equal(sample_rows(1000, 5, 42), torch::tensor({250, 474, 550, 841, 891}, torch::kInt64)))
      << sample_rows(1000, 5, 42);
}

TEST(SampleRows, AreUniform) {
  auto counts = torch::zeros({10});
  const std::int64_t draws = 20000;
  for (std::int64_t seed = 0; seed < draws; ++seed) {
    counts.index_add_(0, sample_rows(10, 3, static_cast<std::uint64_t>(seed)), torch::ones({3}));
  }
  // Each row's count is binomial(20000, 0.3): standard deviation 65.
  EXPECT_LT((counts - 6000).abs().max().item<double>(), 5 * 65);
}

TEST(SampleRows, RefusesMoreThanThereAre) {
  EXPECT_THROW(sample_rows(3, 4, 0), taugrid::InputError);
  EXPECT_THROW(sample_rows(3, -1, 0), taugrid::InputError);
  EXPECT_EQ(sample_rows(std::numeric_limits<std::int64_t>::max(), 2, 0).numel(), 2);
}

}  // namespace
