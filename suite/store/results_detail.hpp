// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the parts of ResultsWriter share: types, spaces and attributes of HDF5.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "suite/store/results.hpp"

namespace taugrid::store::detail {

using Json = nlohmann::json;
using Shape = std::vector<std::int64_t>;

std::string text_of(const Shape& shape);
/// Also of texts that are not UTF-8.
std::string text_of(const std::vector<std::string>& texts);
std::int64_t product(const Shape& shape);

/// Throws std::logic_error for tensor types that results do not use.
Element element_of(at::ScalarType type);
/// Fixed-length UTF-8, or H5T_VARIABLE.
Handle text_type(std::size_t length);
Handle space_of(const Shape& shape);
/// Missing groups on the way are created.
Handle link_creation();

/// Strings padded to one length, one after the other: the rows of a data set of text.
struct PaddedText {
  explicit PaddedText(const std::vector<std::string>& values);
  std::size_t length = 1;  // HDF5 knows no strings of length 0
  std::int64_t count = 0;
  std::string bytes;
};

/// An attribute as it travels from rank 0 to the others, and its writing.
Json describe(const Attribute& attribute);
void write_attribute(hid_t object, const std::string& name, const Json& description);
/// Writes nothing for an empty text.
void write_text(hid_t object, const std::string& name, const std::string& value);

/// CBOR: exact for every number, NaN too.
std::string encode(const Json& value);
Json decode(const std::string& bytes);

}  // namespace taugrid::store::detail
