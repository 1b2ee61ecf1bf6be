// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How HDF5 files hold texts: of variable length, or padded to a fixed one.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "suite/store/hdf5.hpp"

namespace taugrid::store::detail {

/// The string without its padding.
inline std::string unpadded(const char* data, std::size_t size, H5T_str_t padding) {
  std::string text(data, size);
  text.resize(std::min(text.size(), text.find('\0')));
  if (padding == H5T_STR_SPACEPAD) {
    text.erase(text.find_last_not_of(' ') + 1);
  }
  return text;
}

/// Reads `count` strings of the file type `type` by `read(memory type, buffer)`. `transfer`: as it reads.
template <class Read>
std::vector<std::string> read_strings(hid_t type, hid_t space, std::size_t count, hid_t transfer,
                                      Read&& read) {
  std::vector<std::string> result;
  result.reserve(count);
  if (count == 0) {
    return result;
  }
  if (check(H5Tis_variable_str(type), "string type") > 0) {
    std::vector<char*> texts(count, nullptr);
    read(type, texts.data());
    for (const char* text : texts) {
      result.emplace_back(text == nullptr ? "" : text);
    }
    H5Dvlen_reclaim(type, space, transfer, texts.data());
  } else {
    const std::size_t size = H5Tget_size(type);
    std::vector<char> raw(count * size);
    read(type, raw.data());
    for (std::size_t i = 0; i < count; ++i) {
      result.push_back(unpadded(raw.data() + i * size, size, H5Tget_strpad(type)));
    }
  }
  return result;
}

}  // namespace taugrid::store::detail
