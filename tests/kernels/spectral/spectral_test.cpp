// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/spectral/spectral.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace spectral = taugrid::spectral;
using spectral::EigenOptions;
using spectral::EigenResult;
using Method =
    std::function<EigenResult(const spectral::LinearOperator&, const at::Tensor&, const EigenOptions&)>;

spectral::LinearOperator dense(const at::Tensor& matrix) {
  return [matrix](const at::Tensor& v) { return at::mv(matrix, v); };
}

spectral::LinearOperator diagonal_operator(const at::Tensor& values) {
  return [values](const at::Tensor& v) { return values * v; };
}

at::Tensor random_symmetric(std::int64_t n, std::uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor a = at::randn({n, n}, at::kDouble);
  return (a + a.t()) / 2;
}

// Q·diag(values)·Qᵀ with a random orthogonal Q.
at::Tensor with_eigenvalues(const at::Tensor& values, std::uint64_t seed) {
  const at::Tensor q = std::get<0>(at::linalg_qr(random_symmetric(values.numel(), seed)));
  return at::mm(q * values, q.t());
}

double dominant(const at::Tensor& matrix) {
  const at::Tensor values = at::linalg_eigvalsh(matrix);
  return values[values.abs().argmax()].item<double>();
}

double true_residual(const spectral::LinearOperator& apply, const EigenResult& result) {
  const at::Tensor v = result.vector.to(at::kDouble);
  const at::Tensor av = apply(result.vector).to(at::kDouble);
  return (av - result.value * v).norm().item<double>() / std::abs(result.value);
}

class Eigenvalue : public ::testing::TestWithParam<std::string> {
 protected:
  Method method() const {
    if (GetParam() == "power_iteration") return spectral::power_iteration;
    return [](const auto& apply, const auto& like, const auto& options) {
      return spectral::lanczos(apply, like, options);
    };
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, Eigenvalue, ::testing::Values("lanczos", "power_iteration"),
                         [](const auto& method) { return method.param; });

TEST_P(Eigenvalue, MatchesDenseSolver) {
  for (const std::int64_t n : {2, 3, 10, 60}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << "n=" << n << " seed=" << seed);
      const at::Tensor a = random_symmetric(n, seed);
      const EigenResult result =
          method()(dense(a), a[0], {.tolerance = 1e-6, .max_products = 100'000, .seed = seed});
      ASSERT_TRUE(result.converged);
      EXPECT_NEAR(result.value, dominant(a), 1e-6 * std::abs(result.value));
      EXPECT_NEAR(true_residual(dense(a), result), result.residual, 1e-10 + 1e-3 * result.residual);
      EXPECT_NEAR(result.vector.norm().item<double>(), 1, 1e-12);
    }
  }
}

TEST_P(Eigenvalue, NegativeDominantEigenvalue) {
  const at::Tensor a = with_eigenvalues(at::tensor({5.0, -9.0, 3.0, 1.0, 0.1}, at::kDouble), 4);
  const EigenResult result = method()(dense(a), a[0], {.tolerance = 1e-8, .max_products = 1000});
  EXPECT_TRUE(result.converged);
  EXPECT_NEAR(result.value, -9, 1e-7);
}

TEST_P(Eigenvalue, RepeatedEigenvalue) {
  const at::Tensor a = with_eigenvalues(at::tensor({4.0, 4.0, 4.0, 1.0, -2.0, 0.5}, at::kDouble), 5);
  const EigenResult result = method()(dense(a), a[0], {.tolerance = 1e-8});
  EXPECT_TRUE(result.converged);
  EXPECT_NEAR(result.value, 4, 1e-7);
}

TEST_P(Eigenvalue, OneByOne) {
  const at::Tensor a = at::full({1, 1}, -2.5F);
  const EigenResult result = method()(dense(a), a[0], {});
  EXPECT_TRUE(result.converged);
  EXPECT_FLOAT_EQ(static_cast<float>(result.value), -2.5F);
  EXPECT_EQ(result.products, 1);
}

TEST_P(Eigenvalue, ZeroOperator) {
  const EigenResult result = method()(diagonal_operator(at::zeros({7})), at::zeros({7}), {});
  EXPECT_EQ(result.value, 0);
  EXPECT_EQ(result.residual, 0);
  EXPECT_EQ(result.products, 1);
  EXPECT_TRUE(result.converged);
  EXPECT_NEAR(result.vector.norm().item<double>(), 1, 1e-6);
}

TEST_P(Eigenvalue, OperatorMayReturnItsArgument) {
  const EigenResult result = method()([](const at::Tensor& v) { return v; }, at::zeros({50}), {});
  EXPECT_NEAR(result.value, 1, 1e-6);
  EXPECT_EQ(result.products, 1);
}

TEST_P(Eigenvalue, OperatorMayReuseItsBuffer) {
  const at::Tensor a = random_symmetric(30, 6), buffer = at::empty({30}, at::kDouble);
  const auto apply = [&](const at::Tensor& v) {
    at::Tensor out = buffer;
    return at::mv_out(out, a, v);
  };
  const EigenOptions options{.tolerance = 1e-6, .max_products = 100'000};
  EXPECT_EQ(method()(apply, a[0], options).value, method()(dense(a), a[0], options).value);
}

TEST_P(Eigenvalue, LargeDiagonalInFloat) {
  at::manual_seed(7);
  at::Tensor values = at::rand({100'000});
  values[31'415] = -3;
  const EigenResult result = method()(diagonal_operator(values), values, {});
  EXPECT_TRUE(result.converged);
  EXPECT_NEAR(result.value, -3, 1e-5);
  EXPECT_NEAR(std::abs(result.vector[31'415].item<double>()), 1, 1e-3);
  EXPECT_NEAR(true_residual(diagonal_operator(values), result), result.residual, 1e-5);
}

TEST_P(Eigenvalue, StopsAtTheLimitOfProducts) {
  const at::Tensor a = random_symmetric(200, 8);
  const EigenResult result = method()(dense(a), a[0], {.tolerance = 1e-12, .max_products = 6});
  EXPECT_FALSE(result.converged);
  EXPECT_EQ(result.products, 6);
  EXPECT_GT(result.residual, 1e-12);
  EXPECT_NEAR(true_residual(dense(a), result), result.residual, 1e-8);
}

TEST_P(Eigenvalue, DependsOnTheSeedAlone) {
  const at::Tensor a = random_symmetric(40, 9);
  const EigenOptions options{.max_products = 5, .seed = 11};
  at::manual_seed(0);
  const EigenResult first = method()(dense(a), a[0], options);
  at::manual_seed(1);
  const EigenResult second = method()(dense(a), a[0], options);
  EXPECT_EQ(first.value, second.value);
  EXPECT_TRUE(at::equal(first.vector, second.vector));
  EXPECT_NE(first.value, method()(dense(a), a[0], {.max_products = 5, .seed = 12}).value);
}

TEST_P(Eigenvalue, NanNamesTheProduct) {
  int calls = 0;
  const auto apply = [&](const at::Tensor& v) {
    return ++calls == 3 ? at::full_like(v, std::numeric_limits<double>::quiet_NaN())
                        : v * at::arange(1, 21, at::kDouble);
  };
  try {
    method()(apply, at::zeros({20}, at::kDouble), {});
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "product 3 with the operator is not finite");
  }
}

TEST_P(Eigenvalue, RejectsWrongArguments) {
  const auto identity = [](const at::Tensor& v) { return v; };
  const at::Tensor like = at::zeros({3});
  EXPECT_THROW(method()(identity, at::Tensor(), {}), std::invalid_argument);
  EXPECT_THROW(method()(identity, at::zeros({0}), {}), std::invalid_argument);
  EXPECT_THROW(method()(identity, at::zeros({2, 2}), {}), std::invalid_argument);
  EXPECT_THROW(method()(identity, at::zeros({3}, at::kHalf), {}), std::invalid_argument);
  EXPECT_THROW(method()(identity, like, {.tolerance = -1}), std::invalid_argument);
  EXPECT_THROW(method()(identity, like, {.max_products = 0}), std::invalid_argument);
  EXPECT_THROW(method()(identity, like, {.max_basis = 1}), std::invalid_argument);
  EXPECT_THROW(method()([](const at::Tensor& v) { return v.to(at::kDouble); }, like, {}), std::runtime_error);
  EXPECT_THROW(method()([](const at::Tensor& v) { return v.narrow(0, 0, 2); }, like, {}), std::runtime_error);
}

// Neighbours 1 % below the largest: power iteration needs hundreds of products, a small basis several
// restarts.
TEST(Lanczos, ClusterThroughRestarts) {
  at::Tensor values = at::linspace(0, 0.9, 300, at::kDouble);
  values[299] = 1;
  values[298] = 0.99;
  values[297] = -0.985;
  const at::Tensor a = with_eigenvalues(values, 10);
  for (const std::int64_t basis : {2, 3, 5, 8, 24, 1000}) {
    SCOPED_TRACE(testing::Message() << "max_basis=" << basis);
    const EigenResult result =
        spectral::lanczos(dense(a), a[0], {.tolerance = 1e-5, .max_products = 5000, .max_basis = basis});
    EXPECT_TRUE(result.converged);
    EXPECT_NEAR(result.value, 1, 1e-8);
    EXPECT_NEAR(true_residual(dense(a), result), result.residual, 1e-9);
  }
}

TEST(Lanczos, ResidualIsTrueAfterRestartsInFloat) {
  const at::Tensor a = random_symmetric(300, 11).to(at::kFloat);
  const EigenResult result =
      spectral::lanczos(dense(a), a[0], {.tolerance = 1e-4, .max_products = 2000, .max_basis = 6});
  EXPECT_TRUE(result.converged);
  EXPECT_GT(result.products, 12);
  EXPECT_LE(true_residual(dense(a), result), 1.1e-4);
  EXPECT_NEAR(result.value, dominant(a.to(at::kDouble)), 1e-4 * std::abs(result.value));
}

TEST(Lanczos, FindsOneOfTwoOppositeEigenvalues) {
  const at::Tensor a = with_eigenvalues(at::tensor({6.0, -6.0, 1.0, 2.0, 3.0}, at::kDouble), 12);
  const EigenResult result = spectral::lanczos(dense(a), a[0], {.tolerance = 1e-8});
  EXPECT_TRUE(result.converged);
  EXPECT_NEAR(std::abs(result.value), 6, 1e-7);
}

// Two distinct eigenvalues: the Krylov space is complete after two products.
TEST(Lanczos, InvariantSubspaceEndsEarly) {
  at::Tensor values = at::ones({100}, at::kDouble);
  values.narrow(0, 0, 10).fill_(7);
  const EigenResult result = spectral::lanczos(diagonal_operator(values), values, {.tolerance = 0});
  EXPECT_EQ(result.products, 2);
  EXPECT_NEAR(result.value, 7, 1e-12);
  EXPECT_LE(result.residual, 1e-12);
}

TEST(Lanczos, PlacesThatTheOperatorLeavesOut) {
  constexpr std::int64_t run = 128, runs = 30, rest = 5;
  for (const bool few : {true, false}) {  // rows of a vocabulary; and nearly all
    SCOPED_TRACE(few);
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < runs * run + rest; ++i) {
      const auto of = i / run;
      if (of == runs || (few ? of == 0 || of == 3 || of == 4 || of == 17 : of % 15 != 2)) places.push_back(i);
    }
    const auto index = at::tensor(places, at::kLong);
    const auto a = random_symmetric(index.numel(), 11);
    const auto apply = [&](const at::Tensor& v) {
      return at::zeros_like(v).index_copy_(0, index, at::mv(a, v.index_select(0, index)));
    };
    const auto like = at::empty({runs * run + rest}, at::kDouble);
    const EigenResult result = spectral::lanczos(apply, like, {.tolerance = 1e-6, .seed = 3});
    ASSERT_TRUE(result.converged);
    EXPECT_NEAR(result.value, dominant(a), 1e-6 * std::abs(result.value));
    ASSERT_EQ(result.vector.numel(), like.numel());
    EXPECT_NEAR(result.vector.norm().item<double>(), 1, 1e-12);
    EXPECT_NEAR(true_residual(apply, result), result.residual, 1e-10 + 1e-3 * result.residual);
  }
}

TEST(Lanczos, StartsNearAVector) {
  constexpr std::int64_t n = 4000;
  auto values = 100 / at::arange(1, n + 1, at::kDouble);
  values[1] = -90;
  const auto apply = diagonal_operator(values);
  const EigenOptions options{.tolerance = 1e-3, .seed = 4};
  const auto without = spectral::lanczos(apply, values, options);
  at::manual_seed(5);
  auto close = at::randn({n}, at::kDouble);
  close[0] += close.norm();
  const auto with = spectral::lanczos(apply, values, options, 1e-6 * close);
  EXPECT_NEAR(with.value, 100, 1e-3);
  EXPECT_LT(with.products, without.products);

  // The random half of the start finds what lies across the vector.
  auto across = at::zeros({n}, at::kDouble);
  across[1] = 1;
  const auto from_across = spectral::lanczos(apply, values, options, across);
  EXPECT_NEAR(from_across.value, 100, 1e-3);

  const auto zero = spectral::lanczos(apply, values, options, at::zeros({n}, at::kDouble));
  EXPECT_EQ(zero.value, without.value);
  EXPECT_EQ(zero.products, without.products);

  EXPECT_THROW(spectral::lanczos(apply, values, options, at::ones({n - 1}, at::kDouble)),
               std::invalid_argument);
  EXPECT_THROW(spectral::lanczos(apply, values, options, at::ones({n}, at::kFloat)), std::invalid_argument);
}

TEST(Lanczos, NeedsNoMoreProductsThanPowerIteration) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const at::Tensor a = random_symmetric(80, 100 + seed);
    const EigenOptions options{.max_products = 100'000, .seed = seed};
    EXPECT_LE(spectral::lanczos(dense(a), a[0], options).products,
              spectral::power_iteration(dense(a), a[0], options).products);
  }
}

}  // namespace
