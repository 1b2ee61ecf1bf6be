// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "suite/store/mapped_file.hpp"
#include "suite/store/mapped_tensors.hpp"
#include "suite/store/safetensors.hpp"
#include "suite/store/safetensors_writer.hpp"
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

TEST(SafetensorsAppender, ShapesNeedNotBeKnownBefore) {
  const Scratch scratch("appended");
  const auto path = scratch / "model.safetensors";
  const auto a = at::arange(6.0).reshape({2, 3}).t(), b = at::arange(5).to(at::kBFloat16);
  {
    SafetensorsAppender file(path, {"never", "ä", "second", "\"quoted\""}, {{"format", "pt"}});
    file.append("second", a);
    file.append("ä", b);
    file.append("\"quoted\"", at::ones({1, 1, 1, 1, 1, 1, 1, 1}));
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
  }
  const auto read = read_safetensors(path);
  EXPECT_EQ(read.tensors.size(), 3U);
  EXPECT_TRUE(at::equal(read.tensors.at("second"), a));
  EXPECT_TRUE(at::equal(read.tensors.at("ä"), b));
  EXPECT_EQ(read.metadata.at("format"), "pt");
  { SafetensorsAppender left(scratch / "left.safetensors", {"x"}, {}); }
  EXPECT_FALSE(std::filesystem::exists(scratch / "left.safetensors"));
  SafetensorsAppender none(scratch / "none.safetensors", {"x"}, {});
  none.commit();
  EXPECT_TRUE(read_safetensors(scratch / "none.safetensors").tensors.empty());
  SafetensorsAppender wrong(scratch / "wrong.safetensors", {"x"}, {});
  EXPECT_THROW(wrong.append("x", at::zeros({2}, at::kComplexFloat)), taugrid::InputError);
}

/// The file with a header one byte longer, as any writer may leave it.
void misalign(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(stream)), {});
  stream.close();
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  whole.insert(sizeof length + length, " ");
  ++length;
  std::memcpy(whole.data(), &length, sizeof length);
  std::ofstream(path, std::ios::binary) << whole;
}

TEST(MappedTensors, NumbersAreOnThePagesWhereTheyAreAlignedThereAndCopiesElsewhere) {
  const Scratch scratch("aligned");
  const auto path = scratch / "model.safetensors";
  TensorFile file;
  file.tensors["x"] = at::arange(5000, at::kFloat).view({50, 100});
  write_safetensors(path, file);
  for (const bool aligned : {true, false}) {
    if (!aligned) misalign(path);
    const MappedTensors mapped(path);
    EXPECT_TRUE(at::equal(mapped.tensor("x"), file.tensors["x"]));
    at::Tensor copy, other;
    const auto some = mapped.numbers("x", 1230, 7, copy);
    EXPECT_TRUE(at::equal(some, at::arange(1230, 1237, at::kFloat)));
    EXPECT_EQ(copy.defined() && copy.numel() == 7, !aligned);  // a copy has these alone
    EXPECT_EQ(some.const_data_ptr() == mapped.numbers("x", 1230, 7, other).const_data_ptr(), aligned);
    const void* before = copy.defined() ? copy.const_data_ptr() : nullptr;
    EXPECT_TRUE(at::equal(mapped.numbers("x", 3, 5, copy), at::arange(3, 8, at::kFloat)));
    // Memory that is there is used again.
    EXPECT_EQ(copy.defined() ? copy.const_data_ptr() : nullptr, before);
    EXPECT_TRUE(at::equal(mapped.numbers("x", 3, 9, copy), at::arange(3, 12, at::kFloat)));
    mapped.announce("x", 1230, 7);
  }
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
