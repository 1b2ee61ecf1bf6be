// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Conversions of bfloat16 against LibTorch's, bit by bit.
#include "kernels/weights/bfloat16.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace taugrid {
namespace {

std::uint16_t* halves(const at::Tensor& x) { return static_cast<std::uint16_t*>(x.mutable_data_ptr()); }
at::Tensor bits(const at::Tensor& x) { return x.view(x.element_size() == 2 ? at::kShort : at::kInt); }

/// Every bfloat16, also NaN, infinities, denormals and both zeros.
at::Tensor all_of_them() { return at::arange(65536, at::kInt).sub(32768).to(at::kShort).view(at::kBFloat16); }

TEST(BFloat16, WidensEveryNumberAsLibTorchDoes) {
  const auto x = all_of_them();
  const auto out = at::empty({x.numel()}, at::kFloat);
  weights::widen(halves(x), out.mutable_data_ptr<float>(), x.numel());
  EXPECT_TRUE(at::equal(bits(out), bits(x.to(at::kFloat))));
}

TEST(BFloat16, NarrowsAsLibTorchDoes) {
  at::manual_seed(1);
  // Any bits, numbers between two neighbours and half between them, and those of a model.
  const auto any = at::randint(std::int64_t{1} << 32, {1 << 18}, at::kLong).to(at::kInt).view(at::kFloat);
  const auto wide = bits(all_of_them().to(at::kFloat));
  for (const auto& x : {any, at::add(wide, 0x7fff).view(at::kFloat), at::add(wide, 0x8000).view(at::kFloat),
                        at::add(wide, 0x8001).view(at::kFloat), at::randn({1031})}) {
    const auto out = at::empty({x.numel()}, at::kBFloat16), expected = x.to(at::kBFloat16);
    const bool finite = weights::narrow(x.const_data_ptr<float>(), halves(out), x.numel());
    EXPECT_TRUE(
        at::logical_or(bits(out).eq(bits(expected)), out.isnan() & expected.isnan()).all().item<bool>());
    EXPECT_EQ(finite, at::isfinite(expected).all().item<bool>());
  }
  // The largest float32 is none of bfloat16, though it is finite.
  const auto largest = at::full({40}, std::numeric_limits<float>::max());
  EXPECT_FALSE(weights::narrow(largest.const_data_ptr<float>(), halves(at::empty({40}, at::kBFloat16)), 40));
}

/// τ of several models, and whether it was called finite.
std::pair<std::vector<at::Tensor>, bool> subtracted(const std::vector<at::Tensor>& theta,
                                                    const at::Tensor& start) {
  const auto n = theta.front().numel();
  std::vector<at::Tensor> tau;
  std::vector<const std::uint16_t*> x;
  std::vector<float*> out;
  for (const auto& model : theta) {
    tau.push_back(at::full({n + 1}, 7, at::kFloat));  // the last stays
    x.push_back(halves(model));
    out.push_back(tau.back().mutable_data_ptr<float>());
  }
  const bool of_float32 = start.defined() && start.scalar_type() == at::kFloat;
  const bool finite = of_float32 ? weights::subtract(x, start.const_data_ptr<float>(), out, n)
                                 : weights::subtract(x, start.defined() ? halves(start) : nullptr, out, n);
  for (auto& each : tau) {
    EXPECT_EQ(each[n].item<float>(), 7);
    each = each.narrow(0, 0, n);
  }
  return {tau, finite};
}

TEST(BFloat16, SubtractsInFloat32) {
  at::manual_seed(2);
  for (const std::int64_t n : {1, 31, 32, 4099}) {
    const auto start = at::randn({n}).to(at::kBFloat16);
    for (std::size_t count = 1; count <= 7; ++count) {
      std::vector<at::Tensor> theta;
      for (std::size_t t = 0; t < count; ++t) theta.push_back(at::randn({n}).to(at::kBFloat16));
      for (const auto& base : {start, at::randn({n}), at::Tensor()}) {
        const auto result = subtracted(theta, base);
        EXPECT_TRUE(result.second);
        for (std::size_t t = 0; t < count; ++t)
          EXPECT_TRUE(at::equal(result.first[t], base.defined()
                                                     ? theta[t].to(at::kFloat) - base.to(at::kFloat)
                                                     : theta[t].to(at::kFloat)));
      }
    }
  }
}

TEST(BFloat16, SaysWhatIsNotFinite) {
  constexpr std::int64_t n = 4099;
  const auto ones = at::ones({n}, at::kBFloat16);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const std::int64_t place : {0, 2048, 4098}) {
      const auto damaged = ones.clone();
      damaged[place] = bad;
      EXPECT_FALSE(subtracted({ones, ones, damaged}, ones).second);
      EXPECT_FALSE(subtracted({ones}, damaged).second);
      EXPECT_FALSE(subtracted({damaged, ones}, {}).second);
    }
}

}  // namespace
}  // namespace taugrid
