// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/results_detail.hpp"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <variant>

namespace taugrid::store::detail {

std::string text_of(const Shape& shape) { return Json(shape).dump(); }

std::string text_of(const std::vector<std::string>& texts) {
  return Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::int64_t product(const Shape& shape) {
  std::int64_t result = 1;
  for (const auto extent : shape) {
    result *= extent;
  }
  return result;
}

Element element_of(at::ScalarType type) {
  switch (type) {
    case at::kByte:
    case at::kBool:
      return Element::uint8;
    case at::kChar:
      return Element::int8;
    case at::kInt:
      return Element::int32;
    case at::kLong:
      return Element::int64;
    case at::kFloat:
      return Element::float32;
    case at::kDouble:
      return Element::float64;
    default:
      throw std::logic_error("tensor type " + std::string(at::toString(type)) + " cannot be stored");
  }
}

Handle text_type(std::size_t length) {
  Handle type = handle_of(H5Tcopy(H5T_C_S1), "string type");
  check(H5Tset_size(type, length), "string type");
  check(H5Tset_cset(type, H5T_CSET_UTF8), "string type");
  check(H5Tset_strpad(type, H5T_STR_NULLPAD), "string type");
  return type;
}

Handle space_of(const Shape& shape) {
  if (shape.empty()) {
    return handle_of(H5Screate(H5S_SCALAR), "scalar");
  }
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  return handle_of(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), "shape");
}

Handle link_creation() {
  Handle list = handle_of(H5Pcreate(H5P_LINK_CREATE), "link properties");
  check(H5Pset_create_intermediate_group(list, 1), "link properties");
  check(H5Pset_char_encoding(list, H5T_CSET_UTF8), "link properties");
  return list;
}

PaddedText::PaddedText(const std::vector<std::string>& values)
    : count(static_cast<std::int64_t>(values.size())) {
  for (const auto& value : values) {
    length = std::max(length, value.size());
  }
  for (const auto& value : values) {
    bytes += value;
    bytes.append(length - value.size(), '\0');
  }
}

namespace {

template <class T>
void write_numbers(hid_t object, const std::string& name, hid_t type, const std::vector<T>& values,
                   const Shape& shape) {
  const Handle space = space_of(shape);
  const Handle attribute =
      handle_of(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), "attribute " + name);
  if (!values.empty()) {
    check(H5Awrite(attribute, type, values.data()), "attribute " + name);
  }
}

/// Text in attributes has variable length, so that h5py shows str and not bytes.
void write_texts(hid_t object, const std::string& name, const std::vector<std::string>& values,
                 const Shape& shape) {
  std::vector<const char*> pointers;
  for (const auto& value : values) {
    pointers.push_back(value.c_str());
  }
  write_numbers(object, name, text_type(H5T_VARIABLE), pointers, shape);
}

}  // namespace

void write_attribute(hid_t object, const std::string& name, const Json& value) {
  const Shape shape = value["shape"];
  const Json& values = value["values"];
  if (value["kind"] == "text") {
    write_texts(object, name, values, shape);
  } else if (value["kind"] == "real") {
    write_numbers<double>(object, name, H5T_IEEE_F64LE, values, shape);
  } else {
    write_numbers<std::int64_t>(object, name, H5T_STD_I64LE, values, shape);
  }
}

void write_text(hid_t object, const std::string& name, const std::string& value) {
  if (!value.empty()) {
    write_texts(object, name, {value}, {});
  }
}

Json describe(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) -> Json {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, at::Tensor>) {
          if (value.scalar_type() != at::kLong || !value.is_cpu())
            throw std::logic_error("an attribute is no int64 tensor on the host");
          const auto flat = value.flatten().contiguous();
          const auto* first = flat.template const_data_ptr<std::int64_t>();
          return {{"kind", "integer"},
                  {"shape", value.sizes().vec()},
                  {"values", std::vector<std::int64_t>(first, first + flat.numel())}};
        } else {
          constexpr bool text = std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>;
          constexpr bool real = std::is_same_v<T, double> || std::is_same_v<T, std::vector<double>>;
          constexpr bool scalar = std::is_same_v<T, std::string> || std::is_arithmetic_v<T>;
          Json values = Json::array();
          if constexpr (scalar) {
            values.push_back(value);
          } else {
            for (const auto& entry : value) {
              values.push_back(entry);
            }
          }
          const auto shape = scalar ? Json::array() : Json::array({values.size()});
          return {{"kind", text ? "text" : real ? "real" : "integer"}, {"shape", shape}, {"values", values}};
        }
      },
      attribute);
}

Json decode(const std::string& bytes) { return Json::from_cbor(bytes.begin(), bytes.end()); }

std::string encode(const Json& value) {
  std::string bytes;
  Json::to_cbor(value, bytes);
  return bytes;
}

}  // namespace taugrid::store::detail
