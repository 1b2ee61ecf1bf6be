// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One pass over two models against LibTorch's operations in double.
#include "kernels/weights/compare.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace taugrid {
namespace {

weights::Compared compared(const at::Tensor& a, const at::Tensor& b, const at::Tensor& start) {
  if (a.scalar_type() == at::kFloat)
    return weights::compare(a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                            start.defined() ? start.const_data_ptr<float>() : nullptr, a.numel());
  const auto halves = [](const at::Tensor& x) {
    return x.defined() ? static_cast<const std::uint16_t*>(x.const_data_ptr()) : nullptr;
  };
  return weights::compare(halves(a), halves(b), halves(start), a.numel());
}

TEST(Compare, IsWhatOperationsInDoubleSay) {
  at::manual_seed(5);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t n : {1, 15, 16, 17, 5003}) {
      // On a coarse grid: equal numbers, zeros of either sign, signs that differ.
      const auto coarse = [&] { return at::randn({n}).mul(2).round().div(4).to(type); };
      const auto a = coarse(), b = coarse();
      for (const auto& start : {at::Tensor(), coarse(), at::randn({n}).to(type)}) {
        const auto base = start.defined() ? start.to(at::kFloat) : at::zeros({n});
        const auto x = (a.to(at::kFloat) - base), y = (b.to(at::kFloat) - base), d = y - x;
        const auto sum = [](const at::Tensor& u, const at::Tensor& v) {
          return u.to(at::kDouble).mul(v.to(at::kDouble)).sum().item<double>();
        };
        const auto result = compared(a, b, start);
        const double near = 1e-12 * static_cast<double>(n);
        EXPECT_NEAR(result.aa, sum(x, x), near * sum(x, x));
        EXPECT_NEAR(result.ad, sum(x, d), near * (1 + sum(x, x) + sum(d, d)));
        EXPECT_NEAR(result.dd, sum(d, d), near * sum(d, d));
        EXPECT_NEAR(result.base, sum(base, base), near * sum(base, base));
        EXPECT_EQ(result.largest, d.abs().max().item<float>());
        EXPECT_EQ(result.equal, d.eq(0).sum().item<std::int64_t>());
        EXPECT_EQ(result.opposed, at::sign(x).mul(at::sign(y)).lt(0).sum().item<std::int64_t>());
        EXPECT_TRUE(result.finite);
      }
    }
  }
}

TEST(Compare, SaysWhatIsNotFinite) {
  constexpr std::int64_t n = 1003;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto ones = at::ones({n}, type);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
      for (const std::int64_t place : {0, 512, 1002}) {
        const auto damaged = ones.clone();
        damaged[place] = bad;
        EXPECT_FALSE(compared(damaged, ones, {}).finite);
        EXPECT_FALSE(compared(ones, damaged, ones).finite);
        EXPECT_FALSE(compared(ones, ones, damaged).finite);
        EXPECT_FALSE(compared(damaged, damaged, {}).finite);
      }
  }
}

}  // namespace
}  // namespace taugrid
