// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/weights/detail/aten.hpp"
#include "kernels/weights/detail/kokkos.hpp"
#include "kernels/weights/weights.hpp"

namespace {

using taugrid::weights::gram;
namespace detail = taugrid::weights::detail;

std::vector<at::Tensor> random_vectors(std::int64_t tasks, std::int64_t length, at::ScalarType type) {
  at::manual_seed(3);
  std::vector<at::Tensor> vectors;
  for (std::int64_t t = 0; t < tasks; ++t) vectors.push_back(at::randn({length}, type));
  return vectors;
}

std::string message_of(const std::vector<at::Tensor>& vectors) {
  try {
    gram(vectors);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Gram, MatchesAtenForEveryTileAndRemainder) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t length : {1, 5, 127, 128, 129, 4096, 20001}) {
      for (const std::int64_t tasks : {1, 2, 3, 4, 5, 8, 9, 13}) {
        SCOPED_TRACE(testing::Message() << "P=" << length << " T=" << tasks);
        const auto vectors = random_vectors(tasks, length, type);
        const at::Tensor result = gram(vectors);
        ASSERT_EQ(result.scalar_type(), at::kDouble);
        EXPECT_TRUE(at::allclose(result, detail::gram_aten(vectors), 1e-12, 1e-11));
        EXPECT_TRUE(at::equal(result, result.t()));
      }
    }
  }
}

TEST(Gram, TeamVariantForDevicesMatchesOnTheHost) {
  for (const std::int64_t tasks : {1, 3, 4, 9}) {
    const auto vectors = random_vectors(tasks, 20001, at::kFloat);
    std::vector<const float*> pointers;
    for (const auto& vector : vectors) pointers.push_back(vector.const_data_ptr<float>());
    const at::Tensor result = at::zeros({tasks, tasks}, at::kDouble);
    detail::gram_kokkos<float>(detail::Space::portable, 20001, pointers, result.mutable_data_ptr<double>());
    EXPECT_TRUE(at::allclose(result, detail::gram_aten(vectors), 1e-12, 1e-11)) << "T=" << tasks;
  }
}

TEST(Gram, NothingAndEmptyVectors) {
  EXPECT_EQ(gram({}).sizes(), at::IntArrayRef({0, 0}));
  const std::vector<at::Tensor> empty{at::empty({0}), at::empty({0})};
  EXPECT_TRUE(at::equal(gram(empty), at::zeros({2, 2}, at::kDouble)));
}

// Each float32 product is exact in double; in float32 the small terms vanish beside the large ones, as a
// plain sum shows.
TEST(Gram, SumsOfFloatsSurviveCancellation) {
  const std::int64_t length = 100'000;
  const at::Tensor a = at::ones({length});
  const at::Tensor b = at::full({length}, 1e-3F);
  b.slice(0, 0, length, 2).fill_(3e7F);
  b.slice(0, 2, length, 4).fill_(-3e7F);
  const double expected = static_cast<double>(1e-3F) * static_cast<double>(length) / 2;
  EXPECT_NEAR(taugrid::weights::inner_product(a, b), expected, 1e-4 * expected);
  float plain = 0;
  for (std::int64_t i = 0; i < length; ++i)
    plain += a.const_data_ptr<float>()[i] * b.const_data_ptr<float>()[i];
  EXPECT_GT(std::abs(static_cast<double>(plain) - expected), 1e-2 * expected);
}

TEST(Gram, SquaresBeyondFloatDoNotOverflow) {
  EXPECT_DOUBLE_EQ(taugrid::weights::norm(at::full({4}, 1e30F)), 2 * static_cast<double>(1e30F));
}

TEST(Gram, ValueDoesNotDependOnTheOtherVectors) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto vectors = random_vectors(9, 30007, type);
    const at::Tensor all = gram(vectors);
    for (std::size_t i = 0; i < 9; ++i) {
      for (std::size_t j = 0; j < 9; ++j) {
        const double alone = taugrid::weights::inner_product(vectors[i], vectors[j]);
        EXPECT_EQ(alone, all[i][j].item<double>()) << i << ", " << j;
      }
    }
  }
}

TEST(Gram, InnerProductAndNorm) {
  const at::Tensor a = at::tensor({3.0, 4.0}), b = at::tensor({2.0, -1.0});
  EXPECT_EQ(taugrid::weights::norm(a), 5);
  EXPECT_EQ(taugrid::weights::inner_product(a, b), 2);
  EXPECT_EQ(taugrid::weights::inner_product(a, a), 25);
}

TEST(Gram, NanShowsOnlyInItsOwnPairs) {
  auto vectors = random_vectors(3, 200, at::kFloat);
  vectors[1][150] = std::nan("");
  const at::Tensor nan = at::isnan(gram(vectors));
  EXPECT_EQ(nan.sum().item<std::int64_t>(), 5);
  EXPECT_FALSE(nan[0][2].item<bool>());
}

TEST(Gram, SumsOfStretchesAreThoseOfTheWholeAndSubtractAStart) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::size_t count : {1, 2, 5}) {
      const std::int64_t length = 10'007;
      const auto start = random_vectors(1, length, type).front();
      const auto tau = random_vectors(count, length, type);
      std::vector<at::Tensor> theta, differences;
      for (const auto& vector : tau) {
        theta.push_back(start + vector);
        differences.push_back(theta.back() - start);
      }
      taugrid::weights::GramSum sum(static_cast<std::int64_t>(count), length);
      // What is left of the second stretch is made before, as where a stretch lies in two parameters.
      for (std::int64_t begin = 0, i = 0; begin < length; begin += sum.step(), ++i) {
        const auto n = std::min(sum.step(), length - begin);
        std::vector<at::Tensor> x;
        for (const auto& vector : i == 1 ? differences : theta) x.push_back(vector.narrow(0, begin, n));
        EXPECT_TRUE(sum.add(begin, {x, i == 1 ? at::Tensor() : start.narrow(0, begin, n)}));
      }
      EXPECT_TRUE(at::equal(sum.gram(), gram(differences))) << count;
    }
  }
}

TEST(Gram, SaysWhereADifferenceIsNotFinite) {
  const auto start = at::zeros({3000});
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    auto theta = random_vectors(3, 3000, at::kFloat);
    taugrid::weights::GramSum sum(3, 3000);
    ASSERT_LT(sum.step(), 3000);
    theta[1][2999] = value;
    const auto part = [&](std::int64_t begin, std::int64_t n) {
      std::vector<at::Tensor> x;
      for (const auto& vector : theta) x.push_back(vector.narrow(0, begin, n));
      return sum.add(begin, {x, start.narrow(0, begin, n)});
    };
    EXPECT_TRUE(part(0, sum.step()));
    EXPECT_FALSE(part(sum.step(), 3000 - sum.step()));
  }
}

TEST(Gram, RejectsWrongArguments) {
  const at::Tensor good = at::randn({10});
  EXPECT_EQ(message_of({at::Tensor()}), "vectors[0] is undefined");
  EXPECT_EQ(message_of({good, at::randn({11})}), "vectors[1] has 11 elements, expected 10");
  EXPECT_EQ(message_of({good, good.to(at::kDouble)}), "vectors[1] is Double, expected Float");
  EXPECT_EQ(message_of({good, at::randn({20}).slice(0, 0, 20, 2)}), "vectors[1] is not contiguous");
  EXPECT_EQ(message_of({at::randn({2, 5})}), "vectors[0] has 2 dimensions, expected 1");
  EXPECT_EQ(message_of({at::ones({3}, at::kInt)}), "vectors[0] is Int, expected float32 or float64");
}

}  // namespace
