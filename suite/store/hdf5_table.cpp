// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Tables and lists of text, read.
#include <cstring>

#include "suite/store/hdf5.hpp"
#include "suite/store/hdf5_text.hpp"

namespace taugrid::store {
std::vector<std::pair<std::string, double>> Hdf5File::text_and_number(const std::string& name,
                                                                      const std::string& text,
                                                                      const std::string& number) const {
  const auto where = path_.string() + ": " + name;
  const auto what = info(name);  // checks the size against the file's
  const Handle dataset = open(name);
  const Handle type = handle_of(H5Dget_type(dataset), where);
  const auto member = [&](const std::string& column) {
    const int index = H5Tget_class(type) == H5T_COMPOUND ? H5Tget_member_index(type, column.c_str()) : -1;
    H5Eclear2(H5E_DEFAULT);
    if (index < 0 || what.shape.size() != 1) refuse(name, "expected a table with a column " + column);
    return handle_of(H5Tget_member_type(type, static_cast<unsigned>(index)), where);
  };
  const Handle texts = member(text), numbers = member(number);
  if (H5Tget_class(texts) != H5T_STRING || H5Tis_variable_str(texts) != 0)
    refuse(name, "column " + text + ": expected text of fixed length");
  if (H5Tget_class(numbers) != H5T_FLOAT && H5Tget_class(numbers) != H5T_INTEGER)
    refuse(name, "column " + number + ": expected numbers");

  const auto length = H5Tget_size(texts), size = length + sizeof(double);
  const Handle memory = handle_of(H5Tcreate(H5T_COMPOUND, size), where);
  check(H5Tinsert(memory, text.c_str(), 0, texts), where);
  check(H5Tinsert(memory, number.c_str(), length, H5T_NATIVE_DOUBLE), where);
  std::vector<char> bytes(size * static_cast<std::size_t>(what.count));
  if (!bytes.empty())
    check(H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), where + ": cannot be read");
  std::vector<std::pair<std::string, double>> rows;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    double value = 0;
    std::memcpy(&value, bytes.data() + at + length, sizeof value);
    rows.emplace_back(detail::unpadded(bytes.data() + at, length, H5Tget_strpad(texts)), value);
  }
  return rows;
}

std::vector<std::string> Hdf5File::text_list_attribute(const std::string& object,
                                                       const std::string& name) const {
  const auto where = path_.string() + ": " + object + ": attribute " + name;
  const Handle handle = attribute(object, name);
  if (handle < 0) return {};
  const Handle type = handle_of(H5Aget_type(handle), where);
  const Handle space = handle_of(H5Aget_space(handle), where);
  if (H5Tget_class(type) != H5T_STRING) refuse(object, "attribute " + name + ": expected text");
  const auto count = static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space), where));
  // attribute() has checked the whole against the file's size.
  return detail::read_strings(type, space, count, H5P_DEFAULT, [&](hid_t memory, void* texts) {
    check(H5Aread(handle, memory, texts), where);
  });
}

}  // namespace taugrid::store
