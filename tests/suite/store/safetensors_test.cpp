// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors.hpp"

#include <ATen/ATen.h>

#include <limits>

#include "tests/suite/store/scratch.hpp"

namespace {

using taugrid::InputError;
using namespace taugrid::store;
using namespace taugrid::testing;

TensorFile example() {
  TensorFile file;
  file.metadata = {{"format", "pt"}, {"note", "quote \" and ü"}};
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                          at::kChar, at::kByte, at::kBool}) {
    file.tensors[c10::toString(type)] = at::arange(6).reshape({2, 3}).to(type);
  }
  file.tensors["scalar"] = at::scalar_tensor(1.5, at::kFloat);
  file.tensors["empty"] = at::empty({0, 4});
  file.tensors["view"] = at::arange(6.0).reshape({2, 3}).t();
  return file;
}

std::string with_header(const std::string& header, const std::string& data, std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(length >> 8 * i & 0xff);
  }
  return bytes + header + data;
}

TEST(Safetensors, RoundTripsEveryType) {
  const Scratch scratch("safetensors");
  const TensorFile file = example();
  write_safetensors(scratch / "a", file);
  const TensorFile again = read_safetensors(scratch / "a");
  EXPECT_EQ(again.metadata, file.metadata);
  ASSERT_EQ(again.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    const auto& other = again.tensors.at(name);
    EXPECT_EQ(other.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(other, tensor)) << name;
    EXPECT_TRUE(other.is_contiguous()) << name;
  }
  write_safetensors(scratch / "b", again);
  EXPECT_EQ(read_bytes(scratch / "a"), read_bytes(scratch / "b"));
}

TEST(Safetensors, RefusesDamagedHeadersByName) {
  const Scratch scratch("safetensors");
  struct Case {
    std::string header, data, expected;
  };
  const std::string four(4, '\0');
  const std::vector<Case> cases = {
      {"{", "", "not JSON"},
      {"[]", "", "not a JSON object"},
      {"{\"\xff\":1}", "", "not JSON"},
      {std::string(100000, '['), "", "nested too deeply"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       four, "the key \"t\" twice"},
      {R"({"__metadata__":{"a":1}})", "", "__metadata__ \"a\" is not text"},
      {R"({"t":5})", "", "tensor \"t\": expected an object"},
      {R"({"t":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", four, "unknown dtype \"F31\""},
      {R"({"t":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", four, "unknown dtype"},
      {R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four, "non-negative"},
      {R"({"t":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", four, "non-negative"},
      {R"({"t":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,4]}})", four, "overflows"},
      {R"({"t":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})", "", "overflows"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four,
       "take 8 bytes, data_offsets span 4"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", four, "outside the file's 4 bytes"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four, "outside"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", four, "non-negative"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", four, "non-negative"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", four + four, "there is a gap"},
      {R"({"s":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       four, "tensors overlap"},
      {R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four + four,
       "4 bytes follow the last tensor"},
      {R"({"t":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\x02", "neither 0 nor 1"},
  };
  for (const Case& one : cases) {
    write_bytes(scratch / "f", with_header(one.header, one.data, one.header.size()));
    const auto message = message_of([&] { read_safetensors(scratch / "f"); });
    expect_contains(message, one.expected);
    expect_contains(message, (scratch / "f").string());
  }
}

TEST(Safetensors, RefusesImpossibleHeaderLengths) {
  const Scratch scratch("safetensors");
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{100'000'000}, std::uint64_t{100'000'001},
                                     std::numeric_limits<std::uint64_t>::max()}) {
    write_bytes(scratch / "f", with_header("{}", "", length));
    expect_contains(message_of([&] { read_safetensors(scratch / "f"); }), "header length");
  }
  expect_contains(message_of([&] { read_safetensors(scratch / "none"); }), "cannot be read");
  message_of([&] { read_safetensors(scratch / ""); });
}

TEST(Safetensors, SurvivesTruncationAndDamage) {
  const Scratch scratch("safetensors");
  write_safetensors(scratch / "whole", example());
  const std::string whole = read_bytes(scratch / "whole");
  for (std::size_t length = 0; length < whole.size(); length += 8) {
    write_bytes(scratch / "f", whole.substr(0, length));
    message_of([&] { read_safetensors(scratch / "f"); });
  }
  for (std::size_t position = 0; position < whole.size(); ++position) {
    std::string damaged = whole;
    damaged[position] = static_cast<char>(damaged[position] ^ 0x10);
    write_bytes(scratch / "f", damaged);
    try {
      read_safetensors(scratch / "f");
    } catch (const InputError&) {
    }
  }
}

TEST(Safetensors, NamesTheTensorThatIsNotFinite) {
  TensorFile file = example();
  require_finite(file);
  file.tensors["bad"] = at::tensor({1.0, std::numeric_limits<double>::quiet_NaN()}, at::kFloat);
  expect_contains(message_of([&] { require_finite(file, "model"); }), "model: tensor \"bad\" has a NaN");
}

TEST(Safetensors, RefusesWhatTheFormatLacks) {
  const Scratch scratch("safetensors");
  TensorFile file;
  file.tensors["complex"] = at::zeros({1}, at::kComplexFloat);
  expect_contains(message_of([&] { write_safetensors(scratch / "f", file); }), "\"complex\"");
  EXPECT_FALSE(std::filesystem::exists(scratch / "f"));
}

}  // namespace
