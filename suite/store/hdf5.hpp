// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// HDF5's C interface, checked: every call's result goes through check() or handle_of(), which throw an
// InputError that carries HDF5's own error stack in one line. Not thread-safe, as HDF5 is not.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace taugrid::store {

/// The element types that taugrid reads and writes.
enum class Element { uint8, int8, int32, int64, float32, float64 };

std::size_t bytes_of(Element element);
std::string_view name_of(Element element);
/// HDF5's type for it, in memory and in files alike (a conversion would break collective writes).
hid_t type_of(Element element);

/// Owns one HDF5 identifier of any kind.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle();

  operator hid_t() const { return id_; }
  /// Gives the identifier up without closing it.
  hid_t release() { return std::exchange(id_, -1); }

 private:
  hid_t id_ = -1;
};

/// Stops HDF5 from printing its error stack; errors carry it instead. Cheap to repeat.
void quiet_hdf5();

/// HDF5's error stack in one line, innermost cause first; empties it.
std::string hdf5_error();

/// Returns `result` of an HDF5 call. Throws InputError "WHAT: error stack" if it is negative.
long long check(long long result, std::string_view what);
Handle handle_of(hid_t result, std::string_view what);

/// Size and type of a data set.
struct DatasetInfo {
  std::vector<std::int64_t> shape;
  std::optional<Element> element;  // none: strings, compounds, unsigned or long types
  bool integer = false;
  bool string = false;
  std::int64_t count = 1;  // product of the shape
};

/// A file to read. Messages name the file and the data set; every failure is an InputError.
/// A data set that promises more than the file stores is refused before memory is taken for it, and so is one
/// that lies in another file, or is stored through other filters than deflate, shuffle and fletcher32.
class Hdf5File {
 public:
  /// Throws if it is not a complete HDF5 file.
  explicit Hdf5File(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  bool has(const std::string& name) const;
  DatasetInfo info(const std::string& name) const;

  /// Reads a whole data set of numbers as `element`, into `bytes` bytes at `data`, row-major.
  void read(const std::string& name, Element element, void* data, std::size_t bytes) const;
  /// The numbers of a data set that lies in one piece in the file, in native form, as `element`: mapped, not
  /// read, so that pages come when they are looked at and ranks of one host share them. Read-only; lives as
  /// long as the pointer. Null where the data set lies otherwise (chunked, compressed, of another type,
  /// empty).
  std::shared_ptr<const void> map(const std::string& name, Element element) const;
  /// A one-dimensional data set of strings, of fixed or variable length.
  std::vector<std::string> strings(const std::string& name) const;

  /// Two columns of a one-dimensional table: text of fixed length, and a number.
  std::vector<std::pair<std::string, double>> text_and_number(const std::string& name,
                                                              const std::string& text,
                                                              const std::string& number) const;

  /// Attributes of the group or data set `object` ("/" for the root); none if it is missing.
  std::optional<std::string> text_attribute(const std::string& object, const std::string& name) const;
  std::optional<std::vector<double>> number_attribute(const std::string& object,
                                                      const std::string& name) const;

  /// One text or several; none if it is missing.
  std::vector<std::string> text_list_attribute(const std::string& object, const std::string& name) const;

  /// "FILE: /data/set: problem", thrown as InputError.
  [[noreturn]] void refuse(const std::string& name, const std::string& problem) const;

 private:
  Handle open(const std::string& name) const;
  bool has_filters(const std::string& name, hid_t creation) const;
  Handle attribute(const std::string& object, const std::string& name) const;

  std::filesystem::path path_;
  Handle file_, links_;
};

}  // namespace taugrid::store
