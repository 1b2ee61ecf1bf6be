// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/weights/detail/aten.hpp"
#include "kernels/weights/detail/kokkos.hpp"
#include "kernels/weights/weights.hpp"

namespace {

using taugrid::weights::combine;
using taugrid::weights::inner_product;
using taugrid::weights::inner_products;
namespace detail = taugrid::weights::detail;

struct Problem {
  at::Tensor theta0, alpha;
  std::vector<at::Tensor> tau;
};

Problem problem(std::int64_t rows, std::int64_t tasks, std::int64_t length, at::ScalarType type) {
  at::manual_seed(7);
  Problem p{at::randn({length}, type), at::randn({rows, tasks}, type), {}};
  for (std::int64_t t = 0; t < tasks; ++t) p.tau.push_back(at::randn({length}, type));
  return p;
}

void expect_matches_oracle(const at::Tensor& out, const Problem& p) {
  at::Tensor expected = at::empty({p.alpha.size(0), p.theta0.numel()}, p.theta0.options());
  detail::combine_aten(p.theta0, p.tau, p.alpha, expected);
  const double tolerance = p.theta0.scalar_type() == at::kFloat ? 1e-5 : 1e-13;
  EXPECT_TRUE(at::allclose(out, expected, tolerance, tolerance));
}

std::string message_of(const Problem& p, at::Tensor out) {
  try {
    combine(p.theta0, p.tau, p.alpha, out);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

at::Tensor out_for(const Problem& p) {
  return at::empty({p.alpha.size(0), p.theta0.numel()}, p.theta0.options());
}

TEST(Combine, AtenIsTheSumInDouble) {
  const Problem p = problem(3, 5, 70001, at::kFloat);
  at::Tensor combined = out_for(p), expected = p.theta0.to(at::kDouble).expand({3, -1}).clone();
  detail::combine_aten(p.theta0, p.tau, p.alpha, combined);
  for (std::int64_t k = 0; k < 3; ++k)
    for (std::int64_t t = 0; t < 5; ++t)
      expected[k] += p.alpha[k][t].to(at::kDouble) * p.tau[static_cast<std::size_t>(t)].to(at::kDouble);
  EXPECT_LE((combined - expected).abs().max().item<double>(), 1e-5);
  detail::combine_aten(p.theta0, p.tau, at::zeros({3, 5}), combined);
  EXPECT_TRUE(at::equal(combined, p.theta0.expand({3, -1})));
  detail::combine_aten(p.theta0, {}, at::zeros({3, 0}), combined);
  EXPECT_TRUE(at::equal(combined, p.theta0.expand({3, -1})));
}

TEST(InnerProducts, AreThoseOfEachPair) {
  at::manual_seed(3);
  for (const std::int64_t length : {0, 1, 5000, (1 << 22) + 3}) {
    const auto a = at::randn({length}), b = at::randn({length}), c = at::randn({length});
    const std::vector<at::Tensor> vectors = {b, c, a};
    for (const auto& products : {inner_products(a, vectors), detail::inner_products_aten(a, vectors)}) {
      ASSERT_EQ(products.sizes(), at::IntArrayRef({3}));
      ASSERT_EQ(products.scalar_type(), at::kDouble);
      for (std::int64_t t = 0; t < 3; ++t) {
        const auto& vector = vectors[static_cast<std::size_t>(t)];
        EXPECT_NEAR(products[t].item<double>(), inner_product(a, vector),
                    1e-11 * static_cast<double>(length));
      }
    }
  }
  EXPECT_EQ(inner_products(at::ones({4}), {}).numel(), 0);
  EXPECT_THROW(inner_products(at::ones({4}), std::vector<at::Tensor>{at::ones({3})}),
               std::invalid_argument);
}

TEST(Combine, MatchesAtenForEveryTileAndRemainder) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t length : {0, 1, 5, 1023, 1024, 1025, 5000}) {
      for (const std::int64_t tasks : {0, 1, 2, 3, 7, 8, 15, 17}) {
        for (const std::int64_t rows : {0, 1, 2, 3, 4, 7}) {
          SCOPED_TRACE(testing::Message() << "P=" << length << " T=" << tasks << " K=" << rows);
          const Problem p = problem(rows, tasks, length, type);
          const at::Tensor out = combine(p.theta0, p.tau, p.alpha);
          ASSERT_EQ(out.sizes(), at::IntArrayRef({rows, length}));
          ASSERT_EQ(out.scalar_type(), type);
          expect_matches_oracle(out, p);
        }
      }
    }
  }
}

TEST(Combine, MatchesTheFormulaByHand) {
  const at::Tensor theta0 = at::tensor({1.0, 2.0});
  const std::vector<at::Tensor> tau{at::tensor({10.0, 0.0}), at::tensor({0.0, 100.0})};
  const at::Tensor alpha = at::tensor({0.0, 0.0, 1.0, 0.0, -1.0, 0.5}).view({3, 2});
  const at::Tensor expected = at::tensor({1.0, 2.0, 11.0, 2.0, -9.0, 52.0}).view({3, 2});
  EXPECT_TRUE(at::equal(combine(theta0, tau, alpha), expected));
}

TEST(Combine, ElementWiseVariantForDevicesMatchesOnTheHost) {
  const Problem p = problem(5, 11, 1030, at::kFloat);
  at::Tensor out = out_for(p);
  std::vector<const float*> tau;
  for (const auto& vector : p.tau) tau.push_back(vector.const_data_ptr<float>());
  const std::span<const float> alpha(p.alpha.const_data_ptr<float>(), 55);
  detail::combine_kokkos<float>(detail::Space::portable, 1030, p.theta0.const_data_ptr<float>(), tau, alpha,
                                5, out.mutable_data_ptr<float>());
  expect_matches_oracle(out, p);
}

TEST(Combine, RowDoesNotDependOnTheOtherRows) {
  const Problem p = problem(7, 13, 3001, at::kFloat);
  const at::Tensor all = combine(p.theta0, p.tau, p.alpha);
  for (std::int64_t k = 0; k < 7; ++k) {
    EXPECT_TRUE(at::equal(combine(p.theta0, p.tau, p.alpha.narrow(0, k, 1))[0], all[k])) << "k=" << k;
  }
}

TEST(Combine, AlphaMayBeTransposedAndOfAnotherPrecision) {
  Problem p = problem(3, 4, 100, at::kFloat);
  p.alpha = at::randn({4, 3}, at::kDouble).t();
  expect_matches_oracle(combine(p.theta0, p.tau, p.alpha), p);
}

TEST(Combine, ZeroCoefficientOfNanStaysNan) {
  Problem p = problem(1, 2, 9, at::kFloat);
  p.tau[1][4] = std::nan("");
  p.alpha.zero_();
  const at::Tensor out = combine(p.theta0, p.tau, p.alpha);
  EXPECT_EQ(at::isnan(out).sum().item<std::int64_t>(), 1);
}

TEST(Combine, ViewsOfOneStorageAreFineWhenDisjoint) {
  const at::Tensor storage = at::randn({40});
  const Problem p{storage.narrow(0, 0, 10), at::ones({1, 1}), {storage.narrow(0, 10, 10)}};
  at::Tensor out = storage.narrow(0, 20, 10).view({1, 10});
  combine(p.theta0, p.tau, p.alpha, out);
  EXPECT_TRUE(at::equal(out[0], p.theta0 + p.tau[0]));
}

TEST(Combine, RejectsWrongArguments) {
  const Problem good = problem(2, 2, 10, at::kFloat);

  Problem p = good;
  p.theta0 = at::Tensor();
  EXPECT_EQ(message_of(p, out_for(good)), "theta0 is undefined");
  p = good;
  p.theta0 = at::randn({20}).slice(0, 0, 20, 2);
  EXPECT_EQ(message_of(p, out_for(good)), "theta0 is not contiguous");
  p = good;
  p.theta0 = good.theta0.to(at::kHalf);
  EXPECT_EQ(message_of(p, out_for(good)), "theta0 is Half, expected float32 or float64");
  p = good;
  p.tau[1] = at::randn({10, 2}).select(1, 0);
  EXPECT_EQ(message_of(p, out_for(good)), "tau[1] is not contiguous");
  p = good;
  p.tau[1] = p.tau[1].to(at::kDouble);
  EXPECT_EQ(message_of(p, out_for(good)), "tau[1] is Double, expected Float");
  p = good;
  p.tau[0] = at::randn({9});
  EXPECT_EQ(message_of(p, out_for(good)), "tau[0] has 9 elements, expected 10");
  p = good;
  p.tau[0] = p.tau[0].view({5, 2});
  EXPECT_EQ(message_of(p, out_for(good)), "tau[0] has 2 dimensions, expected 1");
  p = good;
  p.alpha = at::randn({2, 3});
  EXPECT_EQ(message_of(p, out_for(good)), "alpha has 3 columns for 2 task vectors");
  p = good;
  p.alpha = at::ones({2, 2}, at::kLong);
  EXPECT_EQ(message_of(p, out_for(good)), "alpha is Long, expected float32 or float64");

  EXPECT_EQ(message_of(good, at::empty({2, 9})), "out is [2, 9], expected [2, 10]");
  EXPECT_EQ(message_of(good, at::empty({2, 10}, at::kDouble)), "out is Double, expected Float");
  EXPECT_EQ(message_of(good, at::empty({10, 2}).t()), "out is not contiguous");
}

TEST(Combine, RejectsOutThatOverlapsAnInput) {
  const at::Tensor storage = at::randn({30});
  Problem p{storage.narrow(0, 0, 10), at::ones({1, 1}), {at::randn({10})}};
  EXPECT_EQ(message_of(p, storage.narrow(0, 9, 10).view({1, 10})), "out overlaps theta0");
  p = {at::randn({10}), at::ones({1, 1}), {storage.narrow(0, 0, 10)}};
  EXPECT_EQ(message_of(p, storage.narrow(0, 0, 10).view({1, 10})), "out overlaps tau[0]");
}

}  // namespace
