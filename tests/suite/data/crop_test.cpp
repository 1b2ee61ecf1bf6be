// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/data/crop.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace taugrid::data {
namespace {

/// Keys' cubic with a = −0.5.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/// Weights [to, from] of a line of `from` pixels enlarged to `to`; taps outside are left away and the rest sums to 1.
at::Tensor enlarging(std::int64_t from, std::int64_t to) {
  auto weights = at::zeros({to, from}, at::kDouble);
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre =
        (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    for (std::int64_t k = 0; k < from; ++k) weights[i][k] = cubic(static_cast<double>(k) - centre);
  }
  return weights / weights.sum(1, /*keepdim=*/true);
}

at::Tensor some_pictures(std::int64_t n, std::int64_t height, std::int64_t width) {
  at::manual_seed(5);
  return at::randint(0, 256, {n, height, width, 3}, at::kLong).to(at::kByte);
}

TEST(ResizedCrops, AreBicubic) {
  const std::int64_t height = 16, width = 20;
  const auto pictures = some_pictures(6, height, width);
  const auto boxes = random_boxes(6, height, width, 0.5, 3);
  const auto ours = resized_crops(pictures, boxes);
  ASSERT_EQ(ours.sizes(), pictures.sizes());
  ASSERT_EQ(ours.scalar_type(), at::kByte);
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto at = [&](std::int64_t k) { return boxes[i][k].item<std::int64_t>(); };
    const auto part = pictures[i].narrow(0, at(0), at(2)).narrow(1, at(1), at(3)).to(at::kDouble);
    const auto exact = at::einsum("yh,hwc,xw->yxc", {enlarging(at(2), height), part, enlarging(at(3), width)});
    const auto error = (ours[i].to(at::kDouble) - exact.clamp(0, 255)).abs().max().item<double>();
    EXPECT_LE(error, 0.5 + 1e-3) << "picture " << i;
  }
}

TEST(ResizedCrops, OfWholePicturesAreThePictures) {
  const auto pictures = some_pictures(3, 8, 8);
  const auto whole = at::tensor({0, 0, 8, 8}, at::kLong).repeat({3, 1});
  EXPECT_TRUE(resized_crops(pictures, whole).equal(pictures));
  EXPECT_TRUE(resized_crops(pictures, random_boxes(3, 8, 8, 1, 0)).equal(pictures));
}

TEST(ResizedCrops, OfAPartOfABatchAreThatPart) {
  const auto pictures = some_pictures(7, 16, 16);
  const auto boxes = random_boxes(7, 16, 16, 0.9, 1);
  const auto all = resized_crops(pictures, boxes);
  EXPECT_TRUE(resized_crops(pictures.narrow(0, 3, 4), boxes.narrow(0, 3, 4)).equal(all.narrow(0, 3, 4)));
  EXPECT_EQ(resized_crops(pictures.narrow(0, 0, 0), boxes.narrow(0, 0, 0)).size(0), 0);
}

TEST(RandomBoxes, LieInThePictureAndKeepTheirShare) {
  const std::int64_t n = 4000, side = 224;
  const auto boxes = random_boxes(n, side, side, 0.9, 7);
  const auto top = boxes.select(1, 0), left = boxes.select(1, 1), height = boxes.select(1, 2),
             width = boxes.select(1, 3);
  EXPECT_TRUE((top >= 0).logical_and(left >= 0).all().item<bool>());
  EXPECT_TRUE((top + height <= side).logical_and(left + width <= side).all().item<bool>());
  const auto share = (height * width).to(at::kDouble) / static_cast<double>(side * side);
  EXPECT_GE(share.min().item<double>(), 0.9 - 0.006);  // sides are whole pixels
  EXPECT_LE(share.max().item<double>(), 1.0);
  EXPECT_GT(share.max().item<double>() - share.min().item<double>(), 0.09);
  // A box that leaves play is anywhere in it, at its ends too.
  const auto play = side - height;
  const auto moving = play > 4;
  const auto where = (top.to(at::kDouble) / play).masked_select(moving);
  EXPECT_GT(where.numel(), n / 3);
  EXPECT_NEAR(where.mean().item<double>(), 0.5, 0.03);
  EXPECT_EQ(where.min().item<double>(), 0);
  EXPECT_EQ(where.max().item<double>(), 1);
  // Neither side is favoured.
  EXPECT_NEAR((height - width).to(at::kDouble).mean().item<double>(), 0, 0.3);
}

TEST(RandomBoxes, FollowFromTheSeedAlone) {
  const auto boxes = random_boxes(20, 32, 32, 0.6, 9);
  EXPECT_TRUE(random_boxes(20, 32, 32, 0.6, 9).equal(boxes));
  EXPECT_TRUE(random_boxes(8, 32, 32, 0.6, 9).equal(boxes.narrow(0, 0, 8)));
  EXPECT_FALSE(random_boxes(20, 32, 32, 0.6, 10).equal(boxes));
}

}  // namespace
}  // namespace taugrid::data
