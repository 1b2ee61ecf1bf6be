// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/machine/memory.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

namespace {

using taugrid::machine::large_blocks;

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

at::Tensor of_mebibytes(std::int64_t count) { return at::empty({count * mebibyte}, at::kByte); }

class LargeBlocks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { taugrid::machine::keep_and_widen_memory(); }
};

TEST_F(LargeBlocks, AFreeOneServesTheNextOfAboutItsSize) {
  std::optional first = of_mebibytes(64);
  const auto* place = first->data_ptr();
  const auto before = large_blocks();
  EXPECT_GE(before.used, 64 * mebibyte);
  first.reset();
  EXPECT_EQ(large_blocks().kept, before.kept + 64 * mebibyte);
  std::optional second = of_mebibytes(60);
  EXPECT_EQ(second->data_ptr(), place);
  EXPECT_EQ(large_blocks().used, before.used);
  second->fill_(7);
  EXPECT_EQ(second->sum().item<std::int64_t>(), 7 * 60 * mebibyte);
  second.reset();
  const auto other = of_mebibytes(40);  // much smaller: a block of its own, for which the free one goes
  EXPECT_LE(large_blocks().used + large_blocks().kept, large_blocks().most);
  EXPECT_EQ(large_blocks().used, before.used - 24 * mebibyte);
}

TEST_F(LargeBlocks, NeverTakeMoreThanWereInUseAtOnce) {
  std::vector<at::Tensor> some;
  for (const std::int64_t size : {40, 50, 64, 80}) some.push_back(of_mebibytes(size));
  const auto most = large_blocks().most;
  for (int round = 0; round < 20; ++round) {
    some.erase(some.begin() + round % 4);
    some.push_back(of_mebibytes(33 + 7 * (round % 5)));
    const auto now = large_blocks();
    EXPECT_LE(now.used + now.kept, now.most);
  }
  EXPECT_EQ(large_blocks().most, most);
  some.clear();
  EXPECT_GT(large_blocks().kept, 0);
  const auto all = of_mebibytes(static_cast<std::int64_t>(most) / mebibyte + 10);  // what was kept makes room
  EXPECT_EQ(large_blocks().kept, 0);
}

TEST_F(LargeBlocks, SmallOnesAreOrdinary) {
  const auto before = large_blocks();
  const auto small = of_mebibytes(8);
  EXPECT_EQ(large_blocks().used, before.used);
  auto& allocator = *small.storage().allocator();
  for (const auto bytes : {std::size_t{1000}, static_cast<std::size_t>(48 * mebibyte)}) {
    auto* raw = allocator.raw_allocate(bytes);
    ASSERT_NE(raw, nullptr);
    allocator.raw_deallocate(raw);
  }
  EXPECT_EQ(large_blocks().used, before.used);
}

}  // namespace
