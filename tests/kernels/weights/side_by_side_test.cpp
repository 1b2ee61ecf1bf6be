// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What is done to many numbers and vectors at once, against the same done to one number after another.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/weights/merging.hpp"
#include "kernels/weights/subtract.hpp"

namespace {

namespace weights = taugrid::weights;
using weights::MergeRule;

std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x21f0aaadU;
  x = (x ^ (x >> 15)) * 0x735a2d97U;
  return x ^ (x >> 15);
}

std::uint64_t split_mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// The draw of one number, which releases and processors must not change: saved merges depend on it.
bool stays(std::uint64_t seed, std::uint64_t t, std::uint64_t place, double density) {
  const auto below = static_cast<std::uint64_t>(std::llround(std::ldexp(density, 32)));
  const auto key = split_mixed(split_mixed(seed) ^ split_mixed((t << 32) + (place >> 32)));
  const auto first = static_cast<std::uint32_t>(key), second = static_cast<std::uint32_t>(key >> 32);
  const auto low = static_cast<std::uint32_t>(place);
  const std::uint64_t byte = mixed(mixed(low / 4 ^ first) ^ second) >> (8 * (low % 4)) & 0xff;
  if (byte != below >> 24) return byte < below >> 24;
  return mixed(mixed(low ^ second) ^ first) >> 8 < (below & 0xffffff);
}

TEST(Drop, DrawsAsEver) {
  constexpr std::int64_t n = 4000;
  const auto ones = at::ones({n});
  auto dropped = at::empty_like(ones);
  for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{4099}, (std::int64_t{1} << 32) - 1998}) {
    for (const double density : {0.001, 0.1, 0.5, 0.996, 1.0}) {
      weights::drop({11, density}, 3, begin, ones, dropped);
      for (std::int64_t i = 0; i < n; ++i)
        ASSERT_EQ(dropped[i].item<float>() == 1, stays(11, 3, static_cast<std::uint64_t>(begin + i), density))
            << density << " at " << begin + i;
    }
  }
}

/// Rules whose sums are divided, dropped or claimed on the way, and some that are not.
std::vector<MergeRule> rules(std::size_t count) {
  MergeRule plain;
  for (std::size_t t = 0; t < count; ++t) plain.weight.push_back(0.3F + 0.1F * static_cast<float>(t));
  plain.divisor = 3;
  std::vector<MergeRule> all(6, plain);
  all[1].drop = weights::Drop{5, 0.5, {2}};
  all[2].drop = weights::Drop{5, 0.3, std::vector<float>(count, 1 / 0.3F)};
  all[3].claim.assign(count, 0.4F);
  all[3].claims = 1;
  all[4].cut.assign(count, {0.8F});
  all[4].cut[0].limit = 4500;
  all[4].drop = weights::Drop{5, 0.7, {1}};
  all[5].vote = MergeRule::Vote::negative;
  all[5].divide = MergeRule::Divide::voters;
  all[5].claim = all[3].claim;
  return all;
}

TEST(Merge, IsThatOfOneNumberAfterAnother) {
  at::manual_seed(3);
  constexpr std::int64_t n = 9001;  // more than two tiles, and no whole registers
  for (const std::size_t count : {1, 2, 4, 7, 8, 13}) {
    std::vector<at::Tensor> tau;
    for (std::size_t t = 0; t < count; ++t) tau.push_back(at::randn({n}) * (at::rand({n}) > 0.2));
    std::size_t number = 0;
    for (const auto& rule : rules(count)) {
      for (const std::int64_t begin : {0, 3}) {
        auto whole = at::full({n}, std::nanf("")), single = at::empty({n});
        const auto counted = weights::merge(rule, begin, {tau}, whole);
        std::int64_t nonzero = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          std::vector<at::Tensor> column;
          for (const auto& x : tau) column.push_back(x.narrow(0, i, 1));
          auto out = single.narrow(0, i, 1);
          nonzero += weights::merge(rule, begin + i, {column}, out).nonzero;
        }
        EXPECT_TRUE(at::equal(whole, single)) << "rule " << number << " of " << count << " from " << begin;
        EXPECT_EQ(counted.nonzero, nonzero) << "rule " << number << " of " << count;
      }
      ++number;
    }
  }
}

TEST(Merge, OfModelsIsThatOfTheirDifferences) {
  at::manual_seed(6);
  for (const std::int64_t n : {5, 64, 4096, 9001}) {
    for (const std::size_t count : {1, 2, 4, 7, 8, 13}) {
      const auto start = at::randn({n});
      std::vector<at::Tensor> theta, tau;
      for (std::size_t t = 0; t < count; ++t) {
        theta.push_back(start + at::randn({n}) * (at::rand({n}) > 0.2));
        tau.push_back(theta.back() - start);
      }
      std::size_t number = 0;
      for (const auto& rule : rules(count)) {
        for (const std::int64_t begin : {0, 3, 4000}) {
          auto of_models = at::empty({n}), expected = at::empty({n});
          const auto counted = weights::merge(rule, begin, {theta, start}, of_models);
          const auto of_tau = weights::merge(rule, begin, {tau}, expected);
          EXPECT_TRUE(at::equal(of_models, expected)) << "rule " << number << ", " << n << " of " << count;
          EXPECT_EQ(counted.nonzero, of_tau.nonzero) << "rule " << number << ", " << n << " of " << count;
          EXPECT_TRUE(counted.finite);
        }
        ++number;
      }
    }
  }
}

TEST(Merge, SaysWhetherAllDifferencesAreFinite) {
  constexpr std::int64_t n = 4099;
  const float inf = std::numeric_limits<float>::infinity();
  const auto start = at::zeros({n});
  auto out = at::empty({n});
  for (const std::size_t count : {1, 3, 8}) {
    for (const auto& rule : rules(count)) {
      for (const std::int64_t place : {0, 70, 4097}) {
        std::vector<at::Tensor> theta;
        for (std::size_t t = 0; t < count; ++t) theta.push_back(at::ones({n}));
        EXPECT_TRUE(weights::merge(rule, 0, {theta, start}, out).finite);
        for (const float special : {inf, -inf, std::nanf("")}) {
          theta.back()[place] = special;
          EXPECT_FALSE(weights::merge(rule, 0, {theta, start}, out).finite);
        }
      }
    }
  }
}

TEST(KthMagnitude, OfAModelIsThatOfItsDifference) {
  at::manual_seed(7);
  for (const std::int64_t n : {1000, (1 << 20) + 5}) {
    const auto start = at::randn({n}), theta = start + at::randn({n}), tau = theta - start;
    for (const std::int64_t k : {std::int64_t{1}, n / 5, n}) {
      weights::KthMagnitude of_model(k, n), of_tau(k, n);
      do of_model.add(theta, start);
      while (of_model.next());
      do of_tau.add(tau);
      while (of_tau.next());
      EXPECT_EQ(of_model.value(), of_tau.value());
      EXPECT_EQ(of_model.above(), of_tau.above());
      EXPECT_EQ(of_model.equal(), of_tau.equal());
    }
  }
}

TEST(Subtract, OfAnyNumberOfModelsOfAnyLength) {
  at::manual_seed(4);
  for (const std::int64_t n : {0, 1, 15, 16, 1100}) {
    for (const std::size_t count : {0, 1, 2, 3, 4, 7}) {
      const auto start = at::randn({n});
      std::vector<at::Tensor> models, out;
      std::vector<const float*> tuned;
      std::vector<float*> tau;
      for (std::size_t t = 0; t < count; ++t) {
        models.push_back(at::randn({n}));
        out.push_back(at::full({n + 1}, 7.0F));
        tuned.push_back(models.back().const_data_ptr<float>());
        tau.push_back(out.back().mutable_data_ptr<float>());
      }
      EXPECT_TRUE(weights::subtract(tuned, start.const_data_ptr<float>(), tau, n));
      for (std::size_t t = 0; t < count; ++t) {
        EXPECT_TRUE(at::equal(out[t].narrow(0, 0, n), models[t] - start));
        EXPECT_EQ(out[t][n].item<float>(), 7);
      }
    }
  }
}

TEST(Subtract, FindsWhatIsNotFinite) {
  constexpr std::int64_t n = 37;
  const auto start = at::zeros({n});
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<at::Tensor> models(5), out(5);
    std::vector<const float*> tuned;
    std::vector<float*> tau;
    for (std::size_t t = 0; t < 5; ++t) {
      models[t] = at::ones({n});
      out[t] = at::empty({n});
      tuned.push_back(models[t].const_data_ptr<float>());
      tau.push_back(out[t].mutable_data_ptr<float>());
    }
    models[static_cast<std::size_t>(i) % 5][i] =
        i % 2 == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
    EXPECT_FALSE(weights::subtract(tuned, start.const_data_ptr<float>(), tau, n)) << i;
  }
}

}  // namespace
