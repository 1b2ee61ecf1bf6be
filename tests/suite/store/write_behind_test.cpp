// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/write_behind.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

#include "suite/store/safetensors.hpp"
#include "tests/suite/store/scratch.hpp"

namespace {

using namespace taugrid::store;
using namespace taugrid::testing;

constexpr std::int64_t numbers = std::int64_t{5} << 20;  // 20 MiB: more than may wait
const SafetensorsWriter::Contents contents = {{"a", {at::kFloat, {numbers}}}, {"b", {at::kFloat, {3}}}};

TEST(WriteBehind, WritesWhatOneWriterWrites) {
  const Scratch scratch("behind");
  const auto a = at::arange(numbers, at::kFloat), b = at::arange(3, at::kFloat);
  SharedSafetensors::create(scratch / "behind", contents, {});
  SharedSafetensors file(scratch / "behind", contents, {}, /*others=*/true);
  {
    WriteBehind behind;
    behind.put(file, "b", 0, b);
    constexpr std::int64_t piece = 300'000;
    for (std::int64_t begin = (numbers - 1) / piece * piece; begin >= 0; begin -= piece)
      behind.put(file, "a", begin, a.narrow(0, begin, std::min(piece, numbers - begin)).clone());
    behind.wait();
    EXPECT_TRUE(at::equal(read_tensor(scratch / "behind", "a"), a));
    behind.put(file, "a", 0, at::full({numbers}, -1.0F));  // larger than the queue, over what is there
    behind.put(file, "a", 0, a);
    behind.wait();
  }
  file.flush();
  write_safetensors(scratch / "plain", {{{"a", a}, {"b", b}}, {}});
  EXPECT_EQ(read_bytes(scratch / "behind"), read_bytes(scratch / "plain"));
}

TEST(WriteBehind, SaysLaterWhatAWriteThrew) {
  const Scratch scratch("behind_failed");
  SharedSafetensors::create(scratch / "file", contents, {});
  SharedSafetensors file(scratch / "file", contents, {}, /*others=*/false);
  WriteBehind behind;
  behind.put(file, "b", 0, at::zeros({3}, at::kHalf));  // of another type than the file's
  EXPECT_THROW(behind.wait(), std::invalid_argument);
  EXPECT_THROW(behind.put(file, "b", 0, at::zeros({3})), std::invalid_argument);
}

}  // namespace
