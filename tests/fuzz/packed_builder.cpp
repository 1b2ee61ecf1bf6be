// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/packed_builder.hpp"

#include <hdf5.h>

#include <algorithm>
#include <vector>

#include "suite/store/hdf5.hpp"

namespace taugrid::fuzz {

namespace {

using store::Handle;

// The libraries' calls may fail on what the bytes say: then the file lacks that object, and is a case as
// well.
class Builder {
 public:
  explicit Builder(FuzzedDataProvider& bytes) : bytes_(bytes) {
    store::quiet_hdf5();
    const Handle access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_fapl_core(access, 1 << 14, 0);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    // Newer and older forms of the same objects.
    H5Pset_libver_bounds(access, odd() ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST);
    file_ = Handle(H5Fcreate("packed", H5F_ACC_TRUNC, H5P_DEFAULT, access));
    links_ = Handle(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(links_, 1);
  }

  void task() {
    const bool words = odd();
    const hsize_t rows = 4, classes = 3, features = 5;
    text_attribute("task", "pets");
    text_attribute("modality", words ? "text" : "image");
    text_attribute("source", "drawn");
    text_attribute("license", "CC0");
    names("/class_names", classes);
    data_set("/head/weight", H5T_IEEE_F32LE, {classes, features},
             [&](std::size_t i) { return i % features == i / features ? 1.0 : 0.0; });
    numbers("/head/weight", "logit_scale", {100});
    for (const std::string split : {"/train", "/validation", "/test"}) {
      const auto labels = [](std::size_t i) { return static_cast<double>(i % 3); };
      if (words) {
        data_set(split + "/inputs", H5T_STD_I32LE, {rows, 6}, [](std::size_t i) { return 1.0 * i; });
        data_set(split + "/lengths", H5T_STD_I32LE, {rows}, [](std::size_t i) { return 1.0 + i; });
      } else {
        data_set(split + "/inputs", H5T_STD_U8LE, {rows, 2, 2, 3}, [](std::size_t i) { return 1.0 * i; });
      }
      data_set(split + "/labels", H5T_STD_I64LE, {rows}, labels);
    }
    if (!words) {
      numbers("/", "mean", {0.5, 0.25, 0});
      numbers("/", "std", {0.5, 0.5, 1});
    }
  }

  void pairs() {
    const hsize_t rows = 3, captions = 2;
    data_set("/images", H5T_STD_U8LE, {rows, 2, 2, 3}, [](std::size_t i) { return 1.0 * i; });
    names("/captions", captions);
    data_set("/caption", H5T_STD_I32LE, {rows}, [](std::size_t i) { return 1.0 * (i % 2); });
    data_set("/text_embedding", H5T_IEEE_F32LE, {captions, 4}, [](std::size_t i) { return 0.5 * i; });
    data_set("/is_class_picture", H5T_STD_I8LE, {rows}, [](std::size_t i) { return 1.0 * (i % 2); });
    data_set("/class_picture_rank", H5T_STD_I32LE, {rows}, [](std::size_t i) { return 1.0 * i; });
    if (odd()) {
      numbers("/", "mean", {0.5, 0.25, 0});
      numbers("/", "std", {0.5, 0.5, 1});
    }
  }

  std::string image() {
    H5Fflush(file_, H5F_SCOPE_GLOBAL);
    std::string result(static_cast<std::size_t>(std::max<ssize_t>(0, H5Fget_file_image(file_, nullptr, 0))),
                       '\0');
    if (!result.empty()) H5Fget_file_image(file_, result.data(), result.size());
    return result;
  }

 private:
  bool odd() { return (bytes_.ConsumeIntegral<std::uint8_t>() & 1) != 0; }
  /// One of `count` ways; 0, the right one, most often.
  unsigned way(unsigned count) {
    const auto byte = bytes_.ConsumeIntegral<std::uint8_t>();
    return byte < 192 ? 0 : byte % count;
  }

  Handle text_type(bool variable, std::size_t size) {
    Handle type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, variable ? H5T_VARIABLE : std::max<std::size_t>(1, size));
    H5Tset_strpad(type, static_cast<H5T_str_t>(way(3)));
    return type;
  }

  Handle number_type(hid_t right) {
    switch (way(14)) {
      case 1:
        return Handle(H5Tcopy(H5T_STD_U8LE));
      case 2:
        return Handle(H5Tcopy(H5T_STD_I8LE));
      case 3:
        return Handle(H5Tcopy(H5T_STD_U16BE));
      case 4:
        return Handle(H5Tcopy(H5T_STD_I32BE));
      case 5:
        return Handle(H5Tcopy(H5T_STD_U64LE));
      case 6:
        return Handle(H5Tcopy(H5T_IEEE_F64BE));
      case 7:
        return Handle(H5Tcopy(H5T_NATIVE_LDOUBLE));
      case 8:
        return text_type(odd(), 4);
      case 9:
        return Handle(H5Tvlen_create(right));
      case 10: {
        const hsize_t extent = bytes_.ConsumeIntegralInRange<hsize_t>(1, 9);
        return Handle(H5Tarray_create2(right, 1, &extent));
      }
      case 11:
        return Handle(H5Tenum_create(H5T_STD_I32LE));
      case 12: {  // odd widths and places of bits
        Handle type(H5Tcopy(H5Tget_class(right) == H5T_FLOAT ? H5T_STD_I64LE : right));
        H5Tset_size(type, bytes_.ConsumeIntegralInRange<std::size_t>(1, 40));
        H5Tset_precision(type, bytes_.ConsumeIntegralInRange<std::size_t>(1, 64));
        H5Tset_offset(type, bytes_.ConsumeIntegralInRange<std::size_t>(0, 40));
        return type;
      }
      case 13: {
        Handle type(H5Tcreate(H5T_COMPOUND, 8));
        H5Tinsert(type, "x", 0, H5T_STD_I32LE);
        return type;
      }
      default:
        return Handle(H5Tcopy(right));
    }
  }

  /// Attributes are never huge: HDF5 writes them at once.
  std::vector<hsize_t> shape_like(std::vector<hsize_t> shape, bool attribute = false) {
    switch (way(5)) {
      case 1:
        shape.pop_back();
        break;
      case 2:
        shape.push_back(1);
        break;
      case 3:
        if (!attribute) std::fill(shape.begin(), shape.end(), bytes_.ConsumeIntegral<std::uint64_t>() >> 8);
        break;
      case 4:
        for (auto& extent : shape) extent = bytes_.ConsumeIntegralInRange<hsize_t>(0, 9);
        break;
      default:
        break;
    }
    return shape;
  }

  Handle space_of(const std::vector<hsize_t>& shape) {
    if (shape.empty()) return Handle(H5Screate(odd() ? H5S_NULL : H5S_SCALAR));
    return Handle(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
  }

  /// HDF5's writer fails on texts in filters made for numbers.
  Handle layout(std::vector<hsize_t> chunk, bool numbers = true) {
    Handle creation(H5Pcreate(H5P_DATASET_CREATE));
    const unsigned kind = way(11);
    if (kind == 1) H5Pset_layout(creation, H5D_COMPACT);
    if (kind == 2) H5Pset_external(creation, "/dev/zero", 0, H5F_UNLIMITED);
    if (kind < 3 || chunk.empty()) return creation;
    for (auto& extent : chunk) {
      extent = std::clamp<hsize_t>(extent, 1, bytes_.ConsumeIntegralInRange<hsize_t>(1, 64));
    }
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
    if (kind == 4 || kind == 5) H5Pset_deflate(creation, 6);
    if (kind == 5 || kind == 6) H5Pset_shuffle(creation);
    if (kind == 7) H5Pset_fletcher32(creation);
    if (!numbers) return creation;
    if (kind == 8) H5Pset_scaleoffset(creation, H5Z_SO_INT, 0);
    if (kind == 9) H5Pset_nbit(creation);
    return creation;
  }

  bool instead(const std::string& name) {
    switch (way(6)) {
      case 1:
        return true;
      case 2:
        H5Lcreate_soft(odd() ? name.c_str() : "/train/inputs", file_, name.c_str(), links_, H5P_DEFAULT);
        return true;
      case 3:
        H5Lcreate_external("/dev/zero", "/x", file_, name.c_str(), links_, H5P_DEFAULT);
        return true;
      case 4:
        Handle(H5Gcreate2(file_, name.c_str(), links_, H5P_DEFAULT, H5P_DEFAULT));
        return true;
      default:
        return false;
    }
  }

  template <class Value>
  void data_set(const std::string& name, hid_t right, const std::vector<hsize_t>& right_shape,
                Value&& value) {
    if (instead(name)) return;
    const auto shape = shape_like(right_shape);
    const Handle type = number_type(right), space = space_of(shape), creation = layout(shape);
    const Handle data(H5Dcreate2(file_, name.c_str(), type, space, links_, creation, H5P_DEFAULT));
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (data < 0 || way(8) == 1 || count < 0 || count > 4096) return;  // declared, and never written
    std::vector<double> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(i);
    if (!values.empty() && way(2) == 1) {
      values[bytes_.ConsumeIntegralInRange<std::size_t>(0, values.size() - 1)] =
          bytes_.ConsumeFloatingPoint<double>();
    }
    H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  }

  void names(const std::string& name, hsize_t right_count) {
    if (instead(name)) return;
    const auto shape = shape_like({right_count});
    const bool variable = way(2) == 1;
    const Handle type = way(4) == 1 ? number_type(H5T_STD_I32LE) : text_type(variable, 8);
    const Handle space = space_of(shape), creation = layout(shape, false);
    const Handle data(H5Dcreate2(file_, name.c_str(), type, space, links_, creation, H5P_DEFAULT));
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (data < 0 || way(8) == 1 || count < 0 || count > 4096 || H5Tget_class(type) != H5T_STRING) return;
    const std::string text = bytes_.ConsumeRandomLengthString(16);
    std::vector<const char*> pointers(static_cast<std::size_t>(count), text.c_str());
    std::vector<char> fixed(static_cast<std::size_t>(count) * 8, 'a');
    H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
             H5Tis_variable_str(type) > 0 ? static_cast<const void*>(pointers.data()) : fixed.data());
  }

  void text_attribute(const std::string& name, std::string text) {
    if (way(8) == 1) return;
    if (way(4) == 1) text = bytes_.ConsumeRandomLengthString(40);
    const Handle type = way(6) == 1 ? number_type(H5T_STD_I32LE) : text_type(way(2) == 1, text.size());
    const auto shape = way(6) == 1 ? shape_like({1}, true) : std::vector<hsize_t>{1};
    const Handle space = space_of(shape);
    const Handle attribute(H5Acreate2(file_, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (attribute < 0 || H5Tget_class(type) != H5T_STRING || count < 0 || count > 64) return;
    std::vector<const char*> pointers(static_cast<std::size_t>(count), text.c_str());
    std::string fixed = text;
    fixed.resize(std::max<std::size_t>(1, H5Tget_size(type)) * static_cast<std::size_t>(count));
    H5Awrite(attribute, type,
             H5Tis_variable_str(type) > 0 ? static_cast<const void*>(pointers.data()) : fixed.data());
  }

  void numbers(const std::string& object, const std::string& name, std::vector<double> values) {
    const Handle where(H5Oopen(file_, object.c_str(), H5P_DEFAULT));
    if (where < 0 || way(8) == 1) return;
    if (way(4) == 1) values.back() = bytes_.ConsumeFloatingPoint<double>();
    const Handle type = number_type(H5T_IEEE_F64LE), space = space_of(shape_like({values.size()}, true));
    const Handle attribute(H5Acreate2(where, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (attribute < 0 || count < 0 || count > 4096) return;
    values.resize(static_cast<std::size_t>(count), 1);
    H5Awrite(attribute, H5T_NATIVE_DOUBLE, values.data());
  }

  FuzzedDataProvider& bytes_;
  Handle file_, links_;
};

}  // namespace

std::string build_task(FuzzedDataProvider& bytes) {
  Builder builder(bytes);
  builder.task();
  return builder.image();
}

std::string build_pairs(FuzzedDataProvider& bytes) {
  Builder builder(bytes);
  builder.pairs();
  return builder.image();
}

}  // namespace taugrid::fuzz
