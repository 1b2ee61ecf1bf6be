// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <filesystem>

#include "suite/store/mapped_file.hpp"
#include "suite/store/mapped_tensors.hpp"
#include "suite/store/safetensors.hpp"
#include "tests/suite/store/scratch.hpp"

namespace {

using namespace taugrid::store;
using namespace taugrid::testing;

void write_model(const std::filesystem::path& path, double value) {
  TensorFile file;
  file.tensors["x"] = at::full({5000}, value, at::kFloat);
  write_safetensors(path, file);
}

TEST(MappedTensors, KnowWhetherTheirFileIsStillTheOneOfItsName) {
  const Scratch scratch("mapped");
  const auto path = scratch / "model.safetensors";
  write_model(path, 1);
  const MappedTensors first(path);
  EXPECT_TRUE(first.current());
  write_model(path, 2);  // another file, as large
  EXPECT_FALSE(first.current());
  EXPECT_EQ(first.tensor("x")[4999].item<float>(), 1);  // it lives on
  const MappedTensors second(path);
  EXPECT_TRUE(second.current());
  EXPECT_EQ(second.tensor("x")[4999].item<float>(), 2);
  std::filesystem::remove(path);
  EXPECT_FALSE(second.current());
}

TEST(ReadAhead, AsksSeldomWhereMemoryHasAll) {
  ReadAhead disk;
  int asked = 0;
  disk.announce([&] { ++asked; });
  EXPECT_EQ(asked, 1);
  for (int i = 0; i < 200; ++i) disk.announce([&] { ++asked; });
  EXPECT_LT(asked, 40);
  EXPECT_GT(asked, 3);  // what memory has now may not stay
}

}  // namespace
