// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Selection against sorting, merging against its formulas written number by number, in double where they sum.
#include "kernels/weights/merging.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/weights/detail/draw_host.hpp"

namespace {

namespace weights = taugrid::weights;
using weights::MergeRule;
using Numbers = std::vector<float>;

at::Tensor tensor(const Numbers& x) { return at::tensor(x, at::kFloat); }
Numbers numbers(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel()};
}

weights::KthMagnitude kth_of(const at::Tensor& x, std::int64_t k, std::int64_t stretch) {
  weights::KthMagnitude kth(k, x.numel());
  do {  // from the end: the order does not matter
    const auto cut = std::max(stretch, x.numel() / 300);
    for (auto begin = (x.numel() - 1) / cut * cut; begin >= 0; begin -= cut)
      kth.add(x.narrow(0, begin, std::min(cut, x.numel() - begin)));
  } while (kth.next());
  return kth;
}

/// The passes over one stretch until its k-th magnitude is known.
int passes_of(const at::Tensor& x, std::int64_t k) {
  weights::KthMagnitude kth(k, x.numel());
  for (int passes = 1;; ++passes) {
    kth.add(x);
    if (!kth.next()) return passes;
  }
}

void expect_as_sorted(const Numbers& x, std::int64_t k) {
  Numbers sorted;
  for (const float y : x) sorted.push_back(std::fabs(y));
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const float value = sorted[static_cast<std::size_t>(k - 1)];
  for (const std::int64_t stretch : {7, 100'000}) {
    const auto kth = kth_of(tensor(x), k, stretch);
    EXPECT_EQ(kth.value(), value) << "k=" << k;
    EXPECT_EQ(kth.above(), std::count_if(sorted.begin(), sorted.end(), [&](float y) { return y > value; }));
    EXPECT_EQ(kth.equal(), std::count(sorted.begin(), sorted.end(), value));
  }
}

TEST(KthMagnitude, IsThatOfTheSortedVector) {
  at::manual_seed(1);
  const auto normal = numbers(at::randn({1031}));
  for (const std::int64_t k : {1, 2, 206, 1030, 1031}) expect_as_sorted(normal, k);
  // Heavy ties, frozen zeros of both signs, the smallest and the largest numbers there are.
  Numbers hard(100, 0.0F);
  for (int i = 0; i < 50; ++i) hard[static_cast<std::size_t>(2 * i)] = static_cast<float>(i % 3 - 1) * 0.25F;
  hard[7] = -0.0F;
  hard[9] = std::numeric_limits<float>::denorm_min();
  hard[11] = -std::numeric_limits<float>::max();
  hard[13] = std::nextafter(0.25F, 1.0F);
  for (std::int64_t k = 1; k <= 100; ++k) expect_as_sorted(hard, k);
  for (const std::int64_t k : {1, 4, 7}) expect_as_sorted(Numbers(7, -2.0F), k);
  // So many numbers in one bin that the second pass counts them.
  for (const std::int64_t k : {1, 100'000, 199'999})
    expect_as_sorted(numbers(1 + at::rand({200'000}) / 16), k);
  expect_as_sorted(Numbers(100'000, 0.0F), 5);
}

TEST(KthMagnitude, OfALongVectorIsFoundByASampleOrWithoutIt) {
  constexpr std::int64_t n = (1 << 20) + 77;
  at::manual_seed(2);
  const auto normal = at::randn({n});
  for (const std::int64_t k : {std::int64_t{1}, n / 20, n / 5, n - 1, n}) {
    EXPECT_EQ(passes_of(normal, k), 2) << k;
    expect_as_sorted(numbers(normal), k);
  }
  auto frozen = normal.clone();  // most are zero: the sample tells of k alone where it is not
  frozen.narrow(0, 0, n / 2).zero_();
  EXPECT_EQ(passes_of(frozen, n / 4), 2);
  EXPECT_EQ(passes_of(frozen, 3 * n / 4), 3);
  for (const std::int64_t k : {n / 4, 3 * n / 4}) expect_as_sorted(numbers(frozen), k);
  // The sample looks at 32 numbers in 1024 and so is wrong here.
  auto hidden = normal.clone();
  hidden.narrow(0, 0, n / 1024 * 1024).view({-1, 1024}).narrow(1, 0, 32).mul_(0.01);
  EXPECT_EQ(passes_of(hidden, n / 5), 4);
  expect_as_sorted(numbers(hidden), n / 5);
}

/// The same of parts of unequal length, each with a holder of its own.
weights::KthMagnitude kth_of_holders(const at::Tensor& x, std::int64_t k) {
  const std::int64_t first = x.numel() / 5, second = x.numel() / 2;
  const at::Tensor parts[] = {x.narrow(0, 0, first), x.narrow(0, first, second),
                              x.narrow(0, first + second, x.numel() - first - second)};
  std::vector<weights::KthMagnitude> each(3, weights::KthMagnitude(k, x.numel()));
  for (bool goes_on = true; goes_on;) {
    for (std::size_t i = 0; i < each.size(); ++i) each[i].add(parts[i]);
    // What one rank hears is what all say at that time: first all are asked, then all are told.
    std::vector<std::int64_t> sums;
    std::vector<float> joined;
    for (const auto& holder : each) {
      auto asked = holder;
      asked.combine({[&](const std::vector<std::int64_t>& mine) {
                       sums.resize(mine.size());
                       for (std::size_t i = 0; i < mine.size(); ++i) sums[i] += mine[i];
                       return mine;
                     },
                     [&](const std::vector<float>& mine) {
                       joined.insert(joined.end(), mine.begin(), mine.end());
                       return mine;
                     }});
    }
    for (auto& holder : each) {
      holder.combine({[&](const auto&) { return sums; }, [&](const auto&) { return joined; }});
      goes_on = holder.next();
    }
  }
  for (const auto& holder : each) EXPECT_EQ(holder.value(), each.front().value());
  return each.back();
}

TEST(KthMagnitude, OfSeveralHoldersIsThatOfTheWhole) {
  at::manual_seed(3);
  const auto check = [](const at::Tensor& x, std::int64_t k) {
    const auto whole = kth_of(x, k, x.numel()), together = kth_of_holders(x, k);
    EXPECT_EQ(together.value(), whole.value()) << k;
    EXPECT_EQ(together.above(), whole.above()) << k;
    EXPECT_EQ(together.equal(), whole.equal()) << k;
  };
  const auto coarse = at::randn({1031}).mul(4).round().div(4);
  for (const std::int64_t k : {1, 2, 206, 1030, 1031}) check(coarse, k);
  for (const std::int64_t k : {1, 100'000, 199'999})
    check(1 + at::rand({200'000}) / 16, k);  // many in one bin
  const auto normal = at::randn({(1 << 20) + 77});
  for (const std::int64_t k : {1, 209'715, 1'048'652}) check(normal, k);
}

TEST(KthMagnitude, RefusesWhatIsNotThere) {
  EXPECT_THROW(weights::KthMagnitude(0, 1), std::invalid_argument);
  weights::KthMagnitude kth(4, 4);
  kth.add(tensor({1, 2, 3}));
  EXPECT_THROW(kth.next(), std::invalid_argument);
  EXPECT_THROW(kth.add(at::zeros({3}, at::kDouble)), std::invalid_argument);
}

TEST(FindMagnitude, CountsOverStretches) {
  std::int64_t n = 3;
  EXPECT_EQ(weights::find_magnitude(tensor({1, -1, 2}), 1, n), -1);
  EXPECT_EQ(n, 1);
  EXPECT_EQ(weights::find_magnitude(tensor({3, 2, -1, 1}), 1, n), 2);
}

TEST(Drop, DependsOnSeedVectorAndPlaceAlone) {
  const weights::Drop rule{7, 0.3, {1 / 0.3F}};
  const std::int64_t begin = (std::int64_t{1} << 32) - 1500;  // across the place where 32 bits end
  const auto ones = at::ones({3000});
  auto whole = at::empty_like(ones), pieces = at::empty_like(ones), other = at::empty_like(ones);
  weights::drop(rule, 2, begin, ones, whole);
  for (std::int64_t from = 0; from < 3000; from += 700) {
    const auto n = std::min<std::int64_t>(700, 3000 - from);
    auto part = pieces.narrow(0, from, n);
    weights::drop(rule, 2, begin + from, ones.narrow(0, from, n), part);
  }
  EXPECT_TRUE(at::equal(whole, pieces));
  weights::drop(rule, 3, begin, ones, other);
  EXPECT_FALSE(at::equal(whole, other));
  EXPECT_FLOAT_EQ(whole.max().item<float>(), 1 / 0.3F);
}

TEST(Drop, KeepsTheShareAndIsUncorrelatedAmongVectorsAndNeighbours) {
  constexpr std::int64_t n = 1 << 20;
  const auto ones = at::ones({n});
  std::vector<at::Tensor> kept;
  for (const std::int64_t t : {0, 1}) {
    kept.push_back(at::empty_like(ones));
    weights::drop({1, 0.2}, t, 0, ones, kept.back());
  }
  const auto deviation = 0.4 / std::sqrt(static_cast<double>(n));  // of a mean of such draws
  const auto share = [&](const at::Tensor& x) { return x.to(at::kDouble).mean().item<double>(); };
  EXPECT_NEAR(share(kept[0]), 0.2, 5 * deviation);
  EXPECT_NEAR(share(kept[1]), 0.2, 5 * deviation);
  EXPECT_NEAR(share(kept[0] * kept[1]), 0.04, 5 * 0.196 / std::sqrt(static_cast<double>(n)));
  for (const std::int64_t apart : {1, 2, 3, 4, 16, 256})
    EXPECT_NEAR(share(kept[0].narrow(0, 0, n - apart) * kept[0].narrow(0, apart, n - apart)), 0.04,
                5 * 0.25 / std::sqrt(static_cast<double>(n)));
}

TEST(Drop, KeepsSharesThatEightBitsDoNotTellApart) {
  constexpr std::int64_t n = 1 << 22;
  const auto ones = at::ones({n});
  auto kept = at::empty_like(ones);
  for (const double density : {1e-3, 0.5, 128.3 / 256, 0.999}) {
    weights::drop({3, density}, 0, 5, ones, kept);
    const auto deviation = std::sqrt(density * (1 - density) / static_cast<double>(n));
    EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), density, 4 * deviation) << density;
  }
}

TEST(Drop, OfEachProbabilityIsThatOfOneDensity) {
  constexpr std::int64_t n = 5000, begin = (std::int64_t{1} << 32) - 1500;
  at::manual_seed(8);
  const auto x = at::randn({n});
  auto of_one = at::empty({n}), of_each = at::empty({n});
  for (const double density : {0.3, 0.5, 1.0}) {
    for (const bool rescales : {false, true}) {
      const weights::Drop rule{7, density, {rescales ? static_cast<float>(1 / density) : 1}};
      weights::drop(rule, 1, begin, x, of_one);
      weights::drop_each({7}, 1, begin, x, at::full({n}, density, at::kDouble), rescales, of_each);
      EXPECT_TRUE(at::equal(of_one, of_each)) << density;
    }
  }
  // What is less probable stays less: the draws are the same.
  const auto p = at::linspace(0.1, 0.6, n, at::kDouble);
  weights::drop({7, 0.6}, 1, begin, x, of_one);
  weights::drop_each({7}, 1, begin, x, p, false, of_each);
  EXPECT_EQ(at::count_nonzero(of_each * (of_one == 0)).item<std::int64_t>(), 0);
  const auto kept = (of_each != 0).to(at::kDouble);
  EXPECT_NEAR(((kept - p) / (p * (1 - p)).sqrt()).mean().item<double>(), 0, 4 / std::sqrt(5000.0));
  EXPECT_THROW(weights::drop_each({7}, 1, 0, x, p.to(at::kFloat), false, of_each), std::invalid_argument);
  EXPECT_THROW(weights::drop_each({7}, 1, 0, x, p.narrow(0, 0, 3).contiguous(), false, of_each),
               std::invalid_argument);
}

/// The definition, one number at a time.
float merged(const MergeRule& rule, std::int64_t place, const Numbers& tau) {
  double all = 0, positive = 0, negative = 0, for_positive = 0, for_negative = 0;
  for (std::size_t t = 0; t < tau.size(); ++t) {
    double x = tau[t];
    if (!rule.cut.empty()) {
      const auto& cut = rule.cut[t];
      const bool stays = std::fabs(x) > cut.value || (std::fabs(x) == cut.value && place < cut.limit);
      if (!stays) x = 0;
    }
    if (!rule.outliers.empty()) {
      const auto& cut = rule.outliers[t];
      if (std::fabs(x) > cut.value || (std::fabs(x) == cut.value && place < cut.limit)) x = 0;
    }
    x *= rule.weight[t];
    all += x;
    (x > 0 ? positive : negative) += x;
    if (x != 0) (x > 0 ? for_positive : for_negative) += rule.weight[t];
  }
  const bool mean = rule.divide == MergeRule::Divide::voters;
  double result = 0;
  if (rule.vote == MergeRule::Vote::none) {
    const double voters = for_positive + for_negative;
    result = mean ? (voters != 0 ? all / voters : 0) : all / rule.divisor;
  } else {
    double sign = all;
    if (std::fabs(all) < 1e-12 && rule.vote != MergeRule::Vote::nobody)
      sign = rule.vote == MergeRule::Vote::positive ? 1 : -1;
    const double sum = sign > 0 ? positive : negative, voters = sign > 0 ? for_positive : for_negative;
    if (std::fabs(sign) > 1e-12 && voters != 0) result = mean ? sum / voters : sum / rule.divisor;
  }
  if (rule.claim.empty()) return static_cast<float>(result);
  std::int64_t claims = 0;
  for (std::size_t t = 0; t < tau.size(); ++t)
    claims += std::fabs(tau[t]) > rule.claim[t] * std::fabs(static_cast<float>(result) - tau[t]) ? 1 : 0;
  return claims >= rule.claims ? static_cast<float>(result) : 0;
}

TEST(Merge, IsItsDefinition) {
  at::manual_seed(5);
  for (const std::int64_t tasks : {1, 2, 8, 70}) {
    std::vector<at::Tensor> tau;
    MergeRule rule;
    for (std::int64_t t = 0; t < tasks; ++t) {
      // Multiples of 1/8, so that sums are exact, and cancel often.
      tau.push_back(at::randint(-4, 5, {2500}, at::kFloat) / 8);
      rule.weight.push_back(t % 3 == 2 ? 0.5F : 1.0F);
      rule.cut.push_back({0.25F, 1000 + 300 * t});
    }
    for (const auto vote : {MergeRule::Vote::none, MergeRule::Vote::positive, MergeRule::Vote::negative,
                            MergeRule::Vote::nobody}) {
      for (const auto divide : {MergeRule::Divide::number, MergeRule::Divide::voters}) {
        enum class More { nothing, claims, outliers };
        for (const auto more : {More::nothing, More::claims, More::outliers}) {
          rule.vote = vote;
          rule.divide = divide;
          rule.divisor = 2;
          rule.claim.assign(more == More::claims ? static_cast<std::size_t>(tasks) : 0, 0.375F);
          rule.outliers.clear();
          for (std::int64_t t = 0; t < tasks && more == More::outliers; ++t)
            rule.outliers.push_back({0.375F, 2000 - 300 * t});
          auto out = at::empty({2500});
          const auto count = weights::merge(rule, 100, {tau}, out);
          const auto merged_numbers = numbers(out);
          std::int64_t nonzero = 0;
          for (std::int64_t i = 0; i < 2500; ++i) {
            Numbers column;
            for (const auto& x : tau) column.push_back(x.const_data_ptr<float>()[i]);
            const auto expected = merged(rule, 100 + i, column);
            ASSERT_NEAR(merged_numbers[static_cast<std::size_t>(i)], expected, 1e-6)
                << "T=" << tasks << " vote " << static_cast<int>(vote) << " place " << i;
            nonzero += expected != 0 ? 1 : 0;
          }
          EXPECT_EQ(count.nonzero, nonzero);
          // Cut into stretches it has the same bits.
          auto again = at::empty({2500});
          for (std::int64_t from = 0; from < 2500; from += 900) {
            const auto n = std::min<std::int64_t>(900, 2500 - from);
            std::vector<at::Tensor> parts;
            for (const auto& x : tau) parts.push_back(x.narrow(0, from, n));
            auto part = again.narrow(0, from, n);
            weights::merge(rule, 100 + from, {parts}, part);
          }
          EXPECT_TRUE(at::equal(out, again));
        }
      }
    }
  }
}

TEST(Merge, CountsElections) {
  MergeRule rule{.weight = {1, 1}, .vote = MergeRule::Vote::positive};
  auto out = at::empty({5});
  //                                            +  0 of none, cancelled, −, +
  const std::vector<at::Tensor> tau = {tensor({1, 0, 2, -3, 1}), tensor({1, 0, -2, 1, 0})};
  const auto count = weights::merge(rule, 0, {tau}, out);
  EXPECT_EQ(count.undecided, 1);
  EXPECT_EQ(count.balance, 1);
  EXPECT_EQ(count.nonzero, 4);
  EXPECT_TRUE(at::equal(out, tensor({2, 0, 2, -3, 1})));
  EXPECT_EQ(count.part.range.begin, 0);
  EXPECT_EQ(count.part.range.count, 5);
  EXPECT_EQ(count.part.nonzero, 4);
}

TEST(Merge, NamesThePartThatHasAllUndecidedPlaces) {
  constexpr std::int64_t n = 100'000, begin = 1'000'000;
  at::manual_seed(9);
  const auto x = at::randn({n}), y = at::randn({n});
  auto out = at::empty({n});
  const MergeRule rule{.weight = {1, 1}, .vote = MergeRule::Vote::nobody};
  EXPECT_EQ(weights::merge(rule, begin, {std::vector{x, y}}, out).part.range.count, 0);
  for (const std::int64_t place : {30'000, 52'345, 99'999}) y[place] = -x[place];
  const auto count = weights::merge(rule, begin, {std::vector{x, y}}, out);
  EXPECT_EQ(count.undecided, 3);
  const auto range = count.part.range;
  EXPECT_LE(range.begin, begin + 30'000);
  EXPECT_GT(range.begin, begin + 20'000);
  EXPECT_EQ(range.end(), begin + n);
  EXPECT_EQ(count.part.nonzero,
            at::count_nonzero(out.narrow(0, range.begin - begin, range.count)).item<std::int64_t>());
}

TEST(Drop, ScalesEachVectorByItsOwn) {
  const auto ones = at::ones({64});
  auto kept = at::empty({64});
  for (std::int64_t t = 0; t < 2; ++t) {
    weights::drop({3, 0.5, {2, 5}}, t, 0, ones, kept);
    EXPECT_EQ(kept.max().item<float>(), t == 0 ? 2 : 5);
  }
  EXPECT_THROW(weights::drop({3, 0.5, {2, 5}}, 2, 0, ones, kept), std::invalid_argument);
}

TEST(MagnitudeSum, IsTheSameHoweverTheVectorIsCut) {
  const auto x = at::randn({100003}, at::make_generator<at::CPUGeneratorImpl>(4)) * 1e3;
  weights::MagnitudeSum whole, cut;
  whole.add(x);
  for (std::int64_t at = 0, n = 1; at < x.numel(); at += n, n = 1 + 3 * n % 97)
    cut.add(x.narrow(0, at, std::min(n, x.numel() - at)));
  EXPECT_EQ(whole.sum(), cut.sum());
  EXPECT_NEAR(whole.sum(), x.to(at::kDouble).abs().sum().item<double>(), 1e-12 * whole.sum());
  EXPECT_EQ(weights::MagnitudeSum().sum(), 0);
}

TEST(Merge, DropsBeforeItTrims) {
  MergeRule rule{.weight = {1}, .drop = weights::Drop{3, 0.5, {2}}, .cut = {{2.0F}}};
  const std::vector<at::Tensor> tau = {tensor({0.9F, 1, 1, 1, 1, 1, 1, 1})};
  auto out = at::empty({8}), dropped = at::empty({8});
  weights::merge(rule, 0, {tau}, out);
  weights::drop(*rule.drop, 0, 0, tau[0], dropped);
  dropped[0] = 0;  // 1.8 is less than 2
  EXPECT_TRUE(at::equal(out, dropped));
  EXPECT_GT(at::count_nonzero(out).item<std::int64_t>(), 0);
}

TEST(Merge, RefusesWhatDoesNotFit) {
  MergeRule rule{.weight = {1, 1}};
  auto out = at::empty({3});
  const std::vector<at::Tensor> single = {at::zeros({3})}, longer = {at::zeros({3}), at::zeros({4})};
  EXPECT_THROW(weights::merge(rule, 0, {single}, out), std::invalid_argument);
  EXPECT_THROW(weights::merge(rule, 0, {longer}, out), std::invalid_argument);
  auto wide = at::empty({3}, at::kDouble);
  EXPECT_THROW(weights::merge({.weight = {1}}, 0, {single}, wide), std::invalid_argument);
}

// The hash of four numbers ends in 24 ones there: of the last one's own byte, nothing is left to be less by.
TEST(Drop, AStripDrawsWhatItsNumbersDraw) {
  using namespace weights::detail;
  const Keys keys{0x12345678U, 0x9abcdef0U};
  const std::uint32_t word = 87871300, place = 4 * word + 3, first = place / strip * strip;
  const auto hash = leading_draws(keys, word);
  ASSERT_EQ(hash & ~leading_bits, ~leading_bits);
  const auto number = (hash & leading_bits) | further_draws(keys, place);
  for (const std::uint32_t below : {0x4c800000U, number, number + 1}) {
    ASSERT_EQ(below & leading_bits, hash & leading_bits);
    const auto draws = draw_strip<true>(keys, first, below);
    const auto i = place - first, lanes = static_cast<std::uint32_t>(taugrid::lanes);
    EXPECT_EQ(draws.quarter[i / lanes][i % lanes] < below, number < below) << below;
  }
}

}  // namespace
