// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/data/packed.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "suite/store/input_file.hpp"
#include "tests/suite/data/packed_file.hpp"
#include "tests/suite/store/scratch.hpp"

namespace {

namespace store = taugrid::store;
using taugrid::InputError;
using namespace taugrid::data;
using namespace taugrid::testing;

PackedFile image_task() {
  PackedFile file;
  for (const std::string split : {"/train", "/validation", "/test"}) {
    file.tensors[split + "/inputs"] = at::arange(4 * 2 * 2 * 3).reshape({4, 2, 2, 3}).to(at::kByte);
    file.tensors[split + "/labels"] = at::tensor({0, 1, 2, 1}, at::kLong);
  }
  file.tensors["/head/weight"] = at::eye(3, 5);
  file.strings["/class_names"] = {"cat", "dog", "größe"};
  file.texts = {{"task", "pets"}, {"modality", "image"}, {"source", "made up"}, {"license", "CC0"}};
  file.numbers[{"/", "mean"}] = {0.5, 0.25, 0};
  file.numbers[{"/", "std"}] = {0.5, 0.5, 1};
  file.numbers[{"/head/weight", "logit_scale"}] = {100};
  return file;
}

PackedFile text_task() {
  PackedFile file = image_task();
  for (const std::string split : {"/train", "/validation", "/test"}) {
    file.tensors[split + "/inputs"] = at::arange(4 * 6).reshape({4, 6}).to(at::kInt);
    file.tensors[split + "/lengths"] = at::tensor({1, 6, 3, 2}, at::kInt);
  }
  file.texts["modality"] = "text";
  file.numbers.erase({"/", "mean"});
  file.numbers.erase({"/", "std"});
  return file;
}

PackedFile pairs() {
  PackedFile file;
  file.tensors["/images"] = at::zeros({3, 2, 2, 3}, at::kByte);
  file.tensors["/caption"] = at::tensor({0, 1, 1}, at::kInt);
  file.tensors["/text_embedding"] = at::ones({2, 4});
  file.tensors["/is_class_picture"] = at::tensor({0, 1, 0}, at::kChar);
  file.tensors["/class_picture_rank"] = at::tensor({-1, 0, -1}, at::kInt);
  file.strings["/captions"] = {"a cat", "a dog"};
  return file;
}

TEST(Packed, ReadsImages) {
  const Scratch scratch("packed");
  image_task().write(scratch / "t.h5");
  const Task task = read_task(scratch / "t.h5");
  EXPECT_EQ(task.name, "pets");
  EXPECT_EQ(task.license, "CC0");
  EXPECT_EQ(task.class_names, (std::vector<std::string>{"cat", "dog", "größe"}));
  EXPECT_EQ(task.head.logit_scale, 100);
  EXPECT_EQ(task.mean, (std::vector<float>{0.5F, 0.25F, 0}));
  EXPECT_TRUE(at::equal(task.head.weight, at::eye(3, 5)));
  EXPECT_EQ(task.test.inputs.sizes(), (std::vector<std::int64_t>{4, 2, 2, 3}));
  EXPECT_EQ(task.test.inputs.scalar_type(), at::kByte);
  EXPECT_TRUE(at::equal(task.train.labels, at::tensor({0, 1, 2, 1}, at::kLong)));
  EXPECT_FALSE(task.train.lengths.defined());
}

TEST(Packed, MapsImagesThatLieInOnePieceAndReadsOthers) {
  const Scratch scratch("packed");
  auto file = image_task();
  file.write(scratch / "whole.h5");
  file.chunked = true;
  file.write(scratch / "chunked.h5");
  const store::Hdf5File whole(scratch / "whole.h5"), chunked(scratch / "chunked.h5");
  EXPECT_NE(whole.map("/train/inputs", store::Element::uint8), nullptr);
  EXPECT_EQ(whole.map("/train/inputs", store::Element::int32), nullptr);
  EXPECT_EQ(whole.map("/class_names", store::Element::uint8), nullptr);
  EXPECT_EQ(chunked.map("/train/inputs", store::Element::uint8), nullptr);
  const Task mapped = read_task(scratch / "whole.h5"), read = read_task(scratch / "chunked.h5");
  for (const auto& name : {"train", "validation", "test"}) {
    const auto& expected = file.tensors.at(std::string("/") + name + "/inputs");
    const auto of = [&](const Task& task) {
      return name[0] == 't' && name[1] == 'r' ? task.train : name[0] == 'v' ? task.validation : task.test;
    };
    EXPECT_TRUE(at::equal(of(mapped).inputs, expected)) << name;
    EXPECT_TRUE(at::equal(of(read).inputs, expected)) << name;
  }
  std::filesystem::remove(scratch / "whole.h5");  // what is mapped stays
  EXPECT_TRUE(at::equal(mapped.test.inputs, file.tensors.at("/test/inputs")));
}

TEST(Packed, ReadsTextAndOtherLabelTypes) {
  const Scratch scratch("packed");
  PackedFile file = text_task();
  file.tensors["/train/labels"] = file.tensors["/train/labels"].to(at::kByte);
  file.write(scratch / "t.h5");
  const Task task = read_task(scratch / "t.h5");
  EXPECT_TRUE(at::equal(task.train.lengths, at::tensor({1, 6, 3, 2}, at::kInt)));
  EXPECT_EQ(task.train.labels.scalar_type(), at::kLong);
  EXPECT_EQ(task.train.inputs.scalar_type(), at::kInt);
  EXPECT_TRUE(task.mean.empty());
  EXPECT_FALSE(task.train.types.defined());
  EXPECT_EQ(longest_text(scratch / "t.h5"), 6);
  EXPECT_EQ(longest_text(scratch / "none.h5"), 0);
  std::filesystem::create_symlink("loop.h5", scratch / "loop.h5");
  EXPECT_EQ(longest_text(scratch / "loop.h5"), 0);
  EXPECT_EQ(places_to_decode(scratch / "loop.h5"), 0);
}

TEST(Packed, ReadsTypesOfSecondTextsAndTheTokenizersHash) {
  const Scratch scratch("packed");
  PackedFile file = text_task();
  for (const std::string split : {"/train", "/validation", "/test"})
    file.tensors[split + "/types"] = at::arange(24, at::kInt).view({4, 6}).remainder(2);
  file.texts["tokenizer"] = "0123456789abcdef";
  file.texts["group"] = "sentiment";
  file.write(scratch / "t.h5");
  const Task task = read_task(scratch / "t.h5");
  EXPECT_TRUE(at::equal(task.test.types, file.tensors["/test/types"]));
  EXPECT_EQ(task.tokenizer, "0123456789abcdef");
  EXPECT_EQ(task.group, "sentiment");
}

TEST(Packed, ReadsTheMasksOfPrompts) {
  const Scratch scratch("packed");
  PackedFile file = text_task();
  for (const std::string split : {"/train", "/validation", "/test"}) {
    file.tensors[split + "/inputs"] = at::arange(24, at::kInt).view({4, 6}).remainder(7);  // 3 at 3, 4 …
    file.tensors[split + "/lengths"] = at::full({4}, 6, at::kInt);
    file.tensors[split + "/mask"] = at::tensor({3, 4, 5, 0}, at::kInt);
    file.tensors[split + "/inputs"][3][0] = 3;
  }
  file.write(scratch / "t.h5");
  const Task task = read_task(scratch / "t.h5");
  EXPECT_TRUE(at::equal(task.test.mask, file.tensors["/test/mask"]));
}

TEST(Packed, RefusesWrongTasksByName) {
  const Scratch scratch("packed");
  struct Case {
    std::function<void(PackedFile&)> spoil;
    std::string expected;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> images = {
      {[](auto& f) { f.tensors.erase("/test/inputs"); }, "/test/inputs: missing"},
      {[](auto& f) {
         f.tensors.erase("/head/weight"), f.numbers.erase({"/head/weight", "logit_scale"});
       },
       "/head/weight: missing"},
      {[](auto& f) { f.texts.erase("license"); }, "attribute license is missing"},
      {[](auto& f) {
         f.numbers.erase({"/", "mean"});
       },
       "attribute mean: expected 3 finite"},
      {[](auto& f) {
         f.numbers[{"/", "mean"}] = {1, 2};
       },
       "attribute mean: expected 3 finite"},
      {[](auto& f) {
         f.numbers[{"/", "std"}] = {1, 1, 0};
       },
       "attribute std: expected numbers above 0"},
      {[](auto& f) {
         f.numbers[{"/", "mean"}] = {0, 1e39, 0};
       },
       "attribute mean: expected 3 finite numbers of single precision"},
      {[](auto& f) {
         f.numbers[{"/", "std"}] = {1, 1, 1e39};
       },
       "attribute std: expected 3 finite numbers of single precision"},
      {[](auto& f) {
         f.numbers[{"/", "std"}] = {1, 1e-50, 1};
       },
       "attribute std: expected numbers above 0"},
      {[](auto& f) {
         f.numbers[{"/", "mean"}] = {0, 1e30, 0};
         f.numbers[{"/", "std"}] = {1, 1e-30, 1};
       },
       "a pixel of channel 1 would become as large as"},
      {[](auto& f) {
         f.numbers[{"/head/weight", "logit_scale"}] = {-1};
       },
       "logit_scale: expected one"},
      {[](auto& f) {
         f.numbers.erase({"/head/weight", "logit_scale"});
       },
       "logit_scale: expected one"},
      {[](auto& f) { f.texts["modality"] = "sound"; }, "modality: expected image or text"},
      {[](auto& f) {
         f.tensors["/train/inputs"] = at::zeros({4, 2, 2, 3});
       },
       "/train/inputs: expected uint8 of 4 dimensions"},
      {[](auto& f) {
         f.tensors["/train/inputs"] = at::zeros({4, 2, 6}, at::kByte);
       },
       "/train/inputs: expected uint8 of 4 dimensions"},
      {[](auto& f) {
         f.tensors["/train/inputs"] = at::zeros({0, 2, 2, 3}, at::kByte);
       },
       "is empty"},
      {[](auto& f) {
         f.tensors["/test/inputs"] = at::zeros({4, 2, 3, 3}, at::kByte);
       },
       "/test/inputs: samples differ in shape"},
      {[](auto& f) {
         f.tensors["/train/labels"] = at::tensor({0, 1, 3, 1}, at::kLong);
       },
       "/train/labels: row 2 holds 3; expected 0 … 2"},
      {[](auto& f) {
         f.tensors["/train/labels"] = at::tensor({0, 1, 2, -1}, at::kLong);
       },
       "/train/labels: row 3 holds -1; expected 0 … 2"},
      {[](auto& f) {
         f.tensors["/train/labels"] = at::tensor({0, 1}, at::kLong);
       },
       "has 2 rows; expected 4"},
      {[](auto& f) { f.tensors["/train/labels"] = at::ones({4}); }, "/train/labels: expected int64"},
      {[](auto& f) { f.tensors["/head/weight"][1] *= 2; }, "row 1 has length 2"},
      {[&](auto& f) { f.tensors["/head/weight"][2][0] = nan; }, "row 2 has a NaN"},
      {[](auto& f) { f.tensors["/head/weight"] = at::eye(2, 5); }, "has 2 rows; expected 3"},
      {[](auto& f) { f.strings["/class_names"] = {}; }, "/class_names: is empty"},
      {[](auto& f) { f.strings.erase("/class_names"), f.tensors["/class_names"] = at::ones({3}); },
       "/class_names: expected a list of strings"},
  };
  for (const Case& test_case : images) {
    PackedFile file = image_task();
    test_case.spoil(file);
    file.write(scratch / "t.h5");
    expect_contains(message_of([&] { read_task(scratch / "t.h5"); }), test_case.expected);
  }
  const std::vector<Case> texts = {
      {[](auto& f) { f.tensors.erase("/test/lengths"); }, "/test/lengths: missing"},
      {[](auto& f) {
         f.tensors["/test/lengths"] = at::tensor({1, 7, 1, 1}, at::kInt);
       },
       "row 1 holds 7; expected 1 … 6"},
      {[](auto& f) {
         f.tensors["/test/lengths"] = at::tensor({0, 1, 1, 1}, at::kInt);
       },
       "row 0 holds 0"},
      {[](auto& f) { f.tensors["/test/inputs"][3][5] = -7; }, "/test/inputs: row 3 holds -7"},
      {[](auto& f) {
         f.tensors["/test/inputs"] = at::zeros({4, 6}, at::kLong);
       },
       "expected int32"},
      {[](auto& f) {
         f.tensors["/test/types"] = at::zeros({4, 5}, at::kInt);
       },
       "/test/types: is not of the shape of the inputs"},
      {[](auto& f) {
         f.tensors["/test/types"] = at::full({4, 6}, 2, at::kInt);
       },
       "/test/types: row 0 holds 2; expected 0 … 1"},
      {[](auto& f) { f.tensors["/test/mask"] = at::full({4}, 6, at::kInt); },
       "/test/mask: row 0 holds 6; expected 0 … 5"},
      {[](auto& f) { f.tensors["/test/mask"] = at::zeros({3}, at::kInt); }, "/test/mask: has 3 rows"},
      {[](auto& f) {
         f.tensors["/test/lengths"] = at::tensor({6, 2, 6, 6}, at::kInt);
         f.tensors["/test/mask"] = at::tensor({0, 2, 0, 0}, at::kInt);
       },
       "/test/mask: row 1 holds 2; its text has 2 tokens"},
      {[](auto& f) {
         f.tensors["/test/inputs"] = at::arange(24, at::kInt).view({4, 6});
         f.tensors["/test/lengths"] = at::full({4}, 6, at::kInt);
         f.tensors["/test/mask"] = at::zeros({4}, at::kInt);
       },
       "/test/mask: row 1 leads to token 6 and row 0 to token 0; expected the mask in both"},
      {[](auto& f) {
         f.tensors["/train/types"] = at::zeros({4, 6}, at::kInt);
       },
       "/validation/types: is missing, and /train/types is there; expected it in all splits or in none"},
      {[](auto& f) {
         for (const std::string split : {"/train", "/validation"})
           f.tensors[split + "/types"] = at::zeros({4, 6}, at::kInt);
       },
       "/test/types: is missing, and /train/types is there"},
      {[](auto& f) {
         f.tensors["/test/inputs"] = at::full({4, 6}, 7, at::kInt);
         f.tensors["/test/mask"] = at::zeros({4}, at::kInt);
       },
       "/test/mask: is there, and /train/mask is missing"},
      {[](auto& f) {
         for (const std::string split : {"/train", "/validation", "/test"}) {
           f.tensors[split + "/inputs"] = at::full({4, 6}, split == "/test" ? 7 : 5, at::kInt);
           f.tensors[split + "/mask"] = at::zeros({4}, at::kInt);
         }
       },
       "/test/mask: leads to token 7 and /train/mask to token 5; expected the same mask"},
  };
  for (const Case& test_case : texts) {
    PackedFile file = text_task();
    test_case.spoil(file);
    file.write(scratch / "t.h5");
    expect_contains(message_of([&] { read_task(scratch / "t.h5"); }), test_case.expected);
  }
}

TEST(Packed, RefusesFilesThatPromiseMoreThanTheyHold) {
  const Scratch scratch("packed");
  image_task().write(scratch / "t.h5");
  {
    // A terabyte that was never written.
    namespace store = taugrid::store;
    const auto file =
        store::handle_of(H5Fopen((scratch / "t.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    H5Ldelete(file, "/test/inputs", H5P_DEFAULT);
    const std::array<hsize_t, 4> shape = {1 << 20, 1 << 10, 1 << 10, 1};
    const std::array<hsize_t, 4> chunk = {1, 1 << 10, 1 << 10, 1};
    const auto space = store::handle_of(H5Screate_simple(4, shape.data(), nullptr), "space");
    const auto creation = store::handle_of(H5Pcreate(H5P_DATASET_CREATE), "creation");
    H5Pset_chunk(creation, 4, chunk.data());
    H5Pset_deflate(creation, 4);
    store::handle_of(
        H5Dcreate2(file, "/test/inputs", H5T_STD_U8LE, space, H5P_DEFAULT, creation, H5P_DEFAULT), "create");
  }
  expect_contains(message_of([&] { read_task(scratch / "t.h5"); }),
                  "/test/inputs: declares 1099511627776 bytes");
}

/// Replaces a list of numbers in the file by one of this length, whose zeros deflate has made small.
void put_zeros(const std::filesystem::path& path, const char* name, hsize_t rows) {
  namespace store = taugrid::store;
  const auto file = store::handle_of(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
  H5Ldelete(file, name, H5P_DEFAULT);
  const hsize_t chunk = 1 << 20;
  const auto space = store::handle_of(H5Screate_simple(1, &rows, nullptr), "space");
  const auto creation = store::handle_of(H5Pcreate(H5P_DATASET_CREATE), "creation");
  H5Pset_chunk(creation, 1, &chunk);
  H5Pset_deflate(creation, 1);
  const auto data = store::handle_of(
      H5Dcreate2(file, name, H5T_STD_I64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT), "create");
  const std::vector<std::int64_t> zeros(chunk);
  const auto part = store::handle_of(H5Screate_simple(1, &chunk, nullptr), "space");
  for (hsize_t at = 0; at < rows; at += chunk) {
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, nullptr, &chunk, nullptr);
    H5Dwrite(data, H5T_NATIVE_INT64, part, space, H5P_DEFAULT, zeros.data());
  }
}

/// Replaces the class names by many that are all one long text of the file.
void put_one_text_often(const std::filesystem::path& path, std::size_t length, hsize_t rows) {
  namespace store = taugrid::store;
  const std::string text(length, 'x');
  const char* once = text.c_str();
  std::array<hsize_t, 1> first = {0};
  const hsize_t single_row = 1;
  std::string image;  // of the reference in the file: written once, then repeated by its bytes
  {
    const auto file = store::handle_of(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    H5Ldelete(file, "/class_names", H5P_DEFAULT);
    const auto type = store::handle_of(H5Tcopy(H5T_C_S1), "type");
    H5Tset_size(type, H5T_VARIABLE);
    const auto space = store::handle_of(H5Screate_simple(1, &rows, nullptr), "space");
    const auto creation = store::handle_of(H5Pcreate(H5P_DATASET_CREATE), "creation");
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    const auto data = store::handle_of(
        H5Dcreate2(file, "/class_names", type, space, H5P_DEFAULT, creation, H5P_DEFAULT), "create");
    const auto part = store::handle_of(H5Screate_simple(1, &single_row, nullptr), "space");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, first.data(), nullptr, &single_row, nullptr);
    H5Dwrite(data, type, part, space, H5P_DEFAULT, &once);
    first[0] = H5Dget_offset(data);
  }
  constexpr std::size_t reference = 16;  // bytes: a length, the heap's place, the text's number in it
  auto whole = read_bytes(path);
  const auto place = static_cast<std::size_t>(first[0]);
  for (hsize_t row = 1; row < rows; ++row)
    whole.replace(place + row * reference, reference, whole, place, reference);
  write_bytes(path, whole);
}

TEST(Packed, RefusesWhatUnpacksToFarMoreThanTheFileHolds) {
  const Scratch scratch("packed");
  const auto path = scratch / "t.h5";
  image_task().write(path);
  put_zeros(path, "/train/labels", hsize_t{64} << 20);  // half a gigabyte in half a megabyte
  expect_contains(message_of([&] { read_task(path); }), "/train/labels: unpacks to 536870912 bytes");
  image_task().write(path);
  put_one_text_often(path, 1 << 20, 1000);
  expect_contains(message_of([&] { read_task(path); }),
                  "/class_names: cannot be read, or its texts take more than");
}

/// A file whose /train/labels, of four integers, `create` makes anew.
void with_labels(const Scratch& scratch, const std::function<void(hid_t file)>& create) {
  image_task().write(scratch / "t.h5");
  const auto file =
      taugrid::store::handle_of(H5Fopen((scratch / "t.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
  H5Ldelete(file, "/train/labels", H5P_DEFAULT);
  create(file);
}

void create_labels(hid_t file, hid_t type, hid_t creation, bool growing = false) {
  namespace store = taugrid::store;
  const hsize_t rows = 4, most = growing ? H5S_UNLIMITED : rows;
  const auto space = store::handle_of(H5Screate_simple(1, &rows, &most), "space");
  const auto data = store::handle_of(
      H5Dcreate2(file, "/train/labels", type, space, H5P_DEFAULT, creation, H5P_DEFAULT), "create");
  const std::array<std::int64_t, 4> labels = {0, 1, 2, 1};
  if (!growing) H5Dwrite(data, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels.data());
}

TEST(Packed, RefusesWhatHdf5WouldTakeOnTrust) {
  const Scratch scratch("packed");
  namespace store = taugrid::store;
  const auto problem = [&] { return message_of([&] { read_task(scratch / "t.h5"); }); };
  const auto chunked = [](hsize_t chunk) {
    auto creation = store::handle_of(H5Pcreate(H5P_DATASET_CREATE), "creation");
    H5Pset_chunk(creation, 1, &chunk);
    return creation;
  };
  // In another file: it might be a pipe without an end.
  with_labels(scratch, [&](hid_t file) {
    image_task().write(scratch / "other.h5");
    H5Lcreate_external((scratch / "other.h5").c_str(), "/train/labels", file, "/train/labels", H5P_DEFAULT,
                       H5P_DEFAULT);
  });
  expect_contains(problem(), "/train/labels: ");
  // HDF5 opens the source of an unlimited virtual data set to tell its shape: a pipe would wait for ever.
  const auto pipe = (scratch / "pipe.h5").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  with_labels(scratch, [&](hid_t file) {
    const hsize_t none = 0, one = 1, most = H5S_UNLIMITED;
    const auto space = store::handle_of(H5Screate_simple(1, &one, &most), "space");
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &none, nullptr, &most, nullptr);
    const auto creation = store::handle_of(H5Pcreate(H5P_DATASET_CREATE), "creation");
    H5Pset_virtual(creation, space, pipe.c_str(), "/x", space);
    store::handle_of(
        H5Dcreate2(file, "/train/labels", H5T_STD_I64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT),
        "create");
  });
  expect_contains(problem(), "/train/labels: lies in other files");
  with_labels(scratch, [&](hid_t file) {
    const auto creation = chunked(4);
    H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
    create_labels(file, H5T_STD_I64LE, creation);
  });
  expect_contains(problem(), "/train/labels: is stored through filter 6; expected deflate");
  with_labels(scratch, [&](hid_t file) { create_labels(file, H5T_STD_I64LE, chunked(1 << 28), true); });
  expect_contains(problem(), "/train/labels: declares 2147483648 bytes");
  with_labels(scratch, [&](hid_t file) {
    const auto type = store::handle_of(H5Tcopy(H5T_STD_I32LE), "type");
    H5Tset_precision(type, 13);
    create_labels(file, type, H5P_DEFAULT);
  });
  expect_contains(problem(), "/train/labels: expected int64 of 1 dimensions");
  // What is in use stays.
  with_labels(scratch, [&](hid_t file) {
    const auto creation = chunked(3);
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 6);
    H5Pset_fletcher32(creation);
    create_labels(file, H5T_STD_I16BE, creation);
  });
  EXPECT_TRUE(at::equal(read_task(scratch / "t.h5").train.labels, at::tensor({0, 1, 2, 1}, at::kLong)));
}

TEST(Packed, RefusesWhatIsNoHdf5File) {
  const Scratch scratch("packed");
  expect_contains(message_of([&] { read_task(scratch / "none"); }), "no such file");
  message_of([&] { read_task(scratch / ""); });
  write_bytes(scratch / "t.h5", "not at all");
  expect_contains(message_of([&] { read_task(scratch / "t.h5"); }), "not an HDF5 file");
}

TEST(Packed, SaysWhoHoldsAFileOpen) {
  const Scratch scratch("packed");
  image_task().write(scratch / "t.h5");
  const int writer = ::open((scratch / "t.h5").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);  // as HDF5 locks what it writes
  const auto refusal = message_of([&] { read_task(scratch / "t.h5"); });
  expect_contains(refusal, "process " + std::to_string(::getpid()) + " (");
  expect_contains(refusal, "holds it open to write");
  EXPECT_EQ(refusal.find("damaged"), std::string::npos) << refusal;
  EXPECT_THROW(read_task(scratch / "t.h5"), store::FileInUse);
  ::close(writer);
  EXPECT_EQ(read_task(scratch / "t.h5").train.labels.numel(), 4);
}

TEST(Packed, SurvivesTruncation) {
  const Scratch scratch("packed");
  image_task().write(scratch / "whole.h5");
  const std::string whole = read_bytes(scratch / "whole.h5");
  const auto refuses = [&](std::size_t length) {
    write_bytes(scratch / "f.h5", whole.substr(0, length));
    message_of([&] { read_task(scratch / "f.h5"); });
  };
  for (std::size_t length = 0; length <= 1024 && length < whole.size(); length += 8) {
    refuses(length);
  }
  for (std::size_t length = 1024; length < whole.size(); length += 509) {
    refuses(length);
  }
}

TEST(Packed, ReadsPairs) {
  const Scratch scratch("packed");
  pairs().write(scratch / "p.h5");
  const Pairs read = read_pairs(scratch / "p.h5");
  EXPECT_EQ(read.captions, (std::vector<std::string>{"a cat", "a dog"}));
  EXPECT_EQ(read.text_embedding.sizes(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_TRUE(at::equal(read.caption, at::tensor({0, 1, 1}, at::kInt)));
  EXPECT_TRUE(read.mean.empty());
  PackedFile wrong = pairs();
  wrong.tensors["/caption"] = at::tensor({0, 2, 1}, at::kInt);
  wrong.write(scratch / "p.h5");
  expect_contains(message_of([&] { read_pairs(scratch / "p.h5"); }),
                  "/caption: row 1 holds 2; expected 0 … 1");
  wrong = pairs();
  wrong.tensors["/is_class_picture"] = at::tensor({0, 1}, at::kChar);
  wrong.write(scratch / "p.h5");
  expect_contains(message_of([&] { read_pairs(scratch / "p.h5"); }), "has 2 rows; expected 3");
}

TEST(Packed, NormalisesImages) {
  const auto images = at::tensor({0, 255, 51, 102}, at::kByte).reshape({1, 1, 2, 2});
  const auto out = normalised_images(images, {0.5F, 0.2F}, {0.5F, 0.1F});
  EXPECT_TRUE(out.is_contiguous());
  EXPECT_TRUE(at::allclose(out, at::tensor({-1.0F, -0.6F, 8.0F, 2.0F}).reshape({1, 2, 1, 2}), 1e-5, 1e-5));
  message_of([&] { normalised_images(images, {0.5F}, {0.5F}); });
}

}  // namespace
