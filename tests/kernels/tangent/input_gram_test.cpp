// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/tangent/input_gram.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using taugrid::tangent::add_input_gram;
using taugrid::tangent::mirror_gram;

/// G, added to twice and made whole, against double precision.
void expect_exact(const at::Tensor& x) {
  const auto in = x.size(1);
  auto gram = at::ones({in, in}, x.options());
  for (int i = 0; i < 2; ++i) add_input_gram(gram, x);
  mirror_gram(gram);
  const auto exact = x.to(at::kDouble);
  const auto expected = 2 * at::mm(exact.t(), exact) + 1;
  EXPECT_TRUE(at::equal(gram, gram.t()));
  EXPECT_LT((gram - expected).norm().item<double>(), 1e-6 * expected.norm().item<double>());
}

TEST(InputGram, MatchesDoublePrecisionForEveryTileAndRemainder) {
  at::manual_seed(5);
  for (const std::int64_t in : {1, 15, 16, 17, 64, 100, 129, 576})
    for (const std::int64_t rows : {0, 1, 7, 1000}) {
      SCOPED_TRACE(testing::Message() << "X [" << rows << ", " << in << "]");
      expect_exact(at::randn({rows, in}));
    }
}

TEST(InputGram, TakesAnyStridesAndOtherTypes) {
  at::manual_seed(6);
  expect_exact(at::randn({300, 2 * 49}).narrow(1, 3, 49));
  expect_exact(at::randn({49, 300}).t());
  expect_exact(at::randn({300, 49, 2}).select(2, 1));
  expect_exact(at::randn({1, 49}).expand({300, 49}));
  expect_exact(at::randn({300, 49}, at::kDouble));
}

TEST(InputGram, IsTheSameByAnyNumberOfThreads) {
  at::manual_seed(7);
  const auto x = at::randn({500, 300});
  const auto threads = at::get_num_threads();
  at::Tensor first;
  for (const int n : {1, 2, 3}) {
    at::set_num_threads(n);
    auto gram = at::zeros({300, 300});
    add_input_gram(gram, x);
    if (!first.defined()) first = gram;
    EXPECT_TRUE(at::equal(gram.triu(), first.triu())) << n;
  }
  at::set_num_threads(threads);
}

TEST(InputGram, RefusesOtherShapes) {
  auto gram = at::zeros({3, 4});
  EXPECT_THROW(add_input_gram(gram, at::zeros({2, 3})), std::invalid_argument);
}

}  // namespace
