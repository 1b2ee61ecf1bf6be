// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors.hpp"

#include <ATen/ATen.h>
#include <sys/stat.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/mapped_tensors.hpp"
#include "suite/store/tensor_folder.hpp"
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
      {std::string(100000, '['), "", "nested more than 3 deep"},
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
  for (const Case& test_case : cases) {
    write_bytes(scratch / "f", with_header(test_case.header, test_case.data, test_case.header.size()));
    const auto message = message_of([&] { read_safetensors(scratch / "f"); });
    expect_contains(message, test_case.expected);
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

TEST(Safetensors, SaysWhatOthersLeaveInItsPlace) {
  const Scratch scratch("safetensors");
  struct Case {
    std::string bytes, expected;
  };
  const std::vector<Case> cases = {
      {"", "is empty"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 12345\n", "git lfs pull"},
      {"<!DOCTYPE html><html>Access denied</html>", "HTML"},
      {"\n <html>", "HTML"},
      {std::string("PK\3\4\0\0\0\0", 8) + std::string(100, 'x'), "zip archive"},
      {std::string("\x1f\x8b\x08\0\0\0\0\0", 8) + std::string(100, 'x'), "gzip"},
      {"\x80\x02}q\x01X\x05..", "pickle"},
      {"\x89HDF\r\n\x1a\n", "HDF5"},
      {"GGUF\x03\x01\x01\x01", "GGUF"},
      // A right header whose length begins as a pickle does, in a file that was cut.
      {with_header("{}", "", 0x0280), "cut short"},
      {with_header("{}", "", '<'), "cut short"},
  };
  for (const Case& test_case : cases) {
    write_bytes(scratch / "f", test_case.bytes);
    expect_contains(message_of([&] { read_safetensors(scratch / "f"); }), test_case.expected);
    expect_contains(message_of([&] { const MappedTensors mapped(scratch / "f"); }), test_case.expected);
  }
}

TEST(Safetensors, RefusesAtOnceWhatIsNoFile) {
  const Scratch scratch("safetensors");
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(scratch / "folder");
  std::filesystem::create_symlink("fifo", scratch / "link");
  for (const auto& [name, expected] : std::map<std::string, std::string>{{"fifo", "is a FIFO"},
                                                                         {"link", "is a FIFO"},
                                                                         {"folder", "is a folder"},
                                                                         {"/dev/zero", "is a device"}}) {
    expect_contains(message_of([&] { read_safetensors(scratch / name); }), expected);
    expect_contains(message_of([&] { const MappedTensors mapped(scratch / name); }), expected);
    EXPECT_THROW(InputFile(scratch / name), ReadFailure);
  }
}

TEST(Safetensors, RefusesAHeaderOfMillionsOfEntriesAtOnce) {
  const Scratch scratch("safetensors");
  std::string header = "{";
  for (int i = 0; i < 450'000; ++i)
    header += "\"t" + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  header.back() = '}';
  write_bytes(scratch / "f", with_header(header, "", header.size()));
  const auto begin = std::chrono::steady_clock::now();
  expect_contains(message_of([&] { const MappedTensors mapped(scratch / "f"); }), "more than 2000000 values");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(Safetensors, ABoolIsZeroOrOneHoweverItIsRead) {
  const Scratch scratch("safetensors");
  const std::string header = R"({"t":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  write_bytes(scratch / "f", with_header(header, "\x01\x02", header.size()));
  expect_contains(message_of([&] { read_safetensors(scratch / "f"); }), "neither 0 nor 1");
  expect_contains(message_of([&] { const MappedTensors mapped(scratch / "f"); }), "neither 0 nor 1");
}

TEST(InputJson, IsBoundedByDepthAndValuesBeforeItTakesMemory) {
  const Scratch scratch("json");
  struct Case {
    std::string text, expected;
  };
  std::string objects = "[";
  for (int i = 0; i < 1'000'000; ++i) objects += "{},";
  const std::vector<Case> cases = {
      {"", "is not JSON"},
      {"{\"a\": 1", "is not JSON"},
      {"{} {}", "is not JSON"},
      {"[1]", "is not a JSON object"},
      {"3", "is not a JSON object"},
      {std::string(1'000'000, '['), "nested more than 32 deep"},
      {"{\"a\": " + objects + "{}]}", "more than 1000000 values"},
      {"<html></html>", "HTML"},
  };
  for (const auto& test_case : cases) {
    write_bytes(scratch / "config.json", test_case.text);
    const auto message =
        message_of([&] { static_cast<void>(input_json(scratch / "config.json", "a model")); });
    expect_contains(message, test_case.expected);
    expect_contains(message, (scratch / "config.json").string());
    expect_contains(message, "; expected a model");
  }
  write_bytes(scratch / "config.json", R"({"a": 1, "a": [2, {"b": null}]})");
  EXPECT_EQ(input_json(scratch / "config.json", "a model").dump(), R"({"a":[2,{"b":null}]})");
  write_bytes(scratch / "config.json", "[1]");
  EXPECT_EQ(input_json(scratch / "config.json", "a list", JsonKind::list).size(), 1);
}

TEST(InputError, IsOneLineOfAtMostFiveHundredCharacters) {
  const std::string name(100'000, 'n'), letters = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "ä";
    return text;
  }();
  std::string words;
  for (int i = 0; i < 10'000; ++i) words += "word ";
  EXPECT_EQ(std::string(InputError("a\nb\x1b").what()), "a\\x0ab\\x1b");
  const std::string short_one = "file.toml:3: key x: is 3; expected 4";
  EXPECT_EQ(std::string(InputError(short_one).what()), short_one);
  for (const auto& text :
       {"file: " + name + " is none; expected b", letters, words, words + name, std::string(5000, '\n'),
        std::string(5000, '\x80'), name + " " + name + " " + name}) {
    const std::string line = InputError(text).what();
    EXPECT_LE(line.size(), 480U);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_NE(line.find("…"), std::string::npos);
  }
  const std::string line = InputError("file: " + name + " is none; expected b").what();
  EXPECT_TRUE(line.starts_with("file: nnn") && line.ends_with("nnn is none; expected b")) << line;
  EXPECT_EQ(std::string(InputError(letters).what()).size() % 2,
            1U);  // letters are whole: of two bytes, and … of three
}

TEST(TensorFolder, SaysATotalSizeThatIsWrong) {
  const Scratch scratch("total");
  TensorFile file;
  file.tensors["a"] = at::ones({2});
  write_safetensors(scratch / "1.safetensors", file);
  const auto notes = [&](const std::string& metadata) {
    write_bytes(scratch / "model.safetensors.index.json",
                "{" + metadata + R"("weight_map": {"a": "1.safetensors"}})");
    return TensorFolder(scratch / "").notes();
  };
  for (const auto* right : {"", R"("metadata": {},)", R"("metadata": {"total_size": 8},)",
                            R"("metadata": null,)", R"("metadata": {"total_size": 8.0},)"})
    EXPECT_TRUE(notes(right).empty()) << right;
  for (const auto* wrong : {R"("metadata": {"total_size": 16},)", R"("metadata": {"total_size": "8"},)",
                            R"("metadata": {"total_size": -8},)"}) {
    const auto said = notes(wrong);
    ASSERT_EQ(said.size(), 1) << wrong;
    expect_contains(said[0], "total_size");
    expect_contains(said[0], "8 bytes");
  }
}

TEST(TensorFolder, HoldsTheIndexAgainstItsParts) {
  const Scratch scratch("parts");
  const auto part = [&](const std::string& name, std::vector<std::string> tensors) {
    TensorFile file;
    for (const auto& tensor : tensors) file.tensors[tensor] = at::full({2}, static_cast<double>(tensor[0]));
    write_safetensors(scratch / name, file);
  };
  const auto index = [&](const std::string& text) {
    write_bytes(scratch / "model.safetensors.index.json", text);
    return message_of([&] { const TensorFolder folder(scratch / ""); });
  };
  part("1.safetensors", {"a", "b"});
  part("2.safetensors", {"c"});
  const std::string start = R"({"metadata": {"total_size": 24}, "weight_map": {"a": "1.safetensors", "b": )";
  write_bytes(scratch / "model.safetensors.index.json", start + R"("1.safetensors", "c": "2.safetensors"}})");
  const TensorFolder whole(scratch / "");
  EXPECT_EQ(whole.tensors().size(), 3);
  EXPECT_EQ(whole.tensor("c")[1].item<float>(), 'c');
  EXPECT_EQ(whole.file_of("c").filename(), "2.safetensors");
  EXPECT_TRUE(whole.current());
  expect_contains(index(start + R"("2.safetensors", "c": "2.safetensors"}})"),
                  "\"b\" is listed in 2.safetensors, and lies in 1.safetensors");
  expect_contains(index(start + R"("1.safetensors", "c": "2.safetensors", "d": "2.safetensors"}})"),
                  "\"d\" is listed in 2.safetensors, and no part has it");
  expect_contains(index(R"({"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}})"),
                  "\"b\" lies in 1.safetensors, and is not listed");
  expect_contains(index(start + R"("3.safetensors", "c": "2.safetensors"}})"), "3.safetensors");
  expect_contains(index(R"({"weight_map": {"a": "../1.safetensors"}})"), "names a part");
  expect_contains(index(R"({"weight_map": {}})"), "no weight_map");
  expect_contains(index(std::string(100'000, '[')), "nested");
  part("2.safetensors", {"a", "c"});
  expect_contains(index(start + R"("1.safetensors", "c": "2.safetensors"}})"), "as another part has");
}

TEST(TensorFolder, GathersRowsThatWereArranged) {
  const Scratch scratch("rows");
  TensorFile file;
  file.tensors["x"] = at::arange(15, at::kFloat).reshape({5, 3}).to(at::kBFloat16);
  write_safetensors(scratch / "model.safetensors", file);
  TensorFolder folder(scratch / "");
  const auto further = at::tensor({-1.0F, -2.0F, -3.0F, 0.1F, 0.2F, 0.3F}).reshape({2, 3});
  const auto last = at::tensor({7.0F, 8.0F, 9.0F});
  folder.arrange("x", {{2, 3, 4, -2, 0, -1, -3}, further, last});
  folder.rename([](const std::string& name) { return "of." + name; });
  const auto rows = file.tensors["x"].to(at::kFloat);
  const auto expected = at::stack({rows[2], rows[3], rows[4], further[1], rows[0], further[0], last});
  EXPECT_EQ(folder.tensors().at("of.x").shape, (std::vector<std::int64_t>{7, 3}));
  EXPECT_EQ(folder.tensors().at("of.x").scalar, at::kBFloat16);
  EXPECT_FALSE(folder.is_on_pages("of.x"));
  EXPECT_TRUE(at::equal(folder.tensor("of.x"), expected));
  at::Tensor unused;
  for (std::int64_t begin = 0; begin < 21; ++begin)
    for (std::int64_t count = 0; begin + count <= 21; ++count)
      EXPECT_TRUE(
          at::equal(folder.numbers("of.x", begin, count, unused), expected.flatten().narrow(0, begin, count)))
          << begin << ", " << count;
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
