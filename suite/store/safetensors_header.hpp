// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, read with every check: it describes exactly the bytes that follow it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace taugrid::store::detail {

constexpr std::uint64_t header_limit = 100'000'000;  ///< bytes of a header, the format's own limit

/// One tensor: where its bytes lie in the file.
struct TensorEntry {
  std::string name;
  at::ScalarType scalar = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> entries;  ///< in the order of their bytes
};

/// Throws InputError where there is no such file, or what is there is none.
std::ifstream open_safetensors(const std::filesystem::path& path);

/// Throws InputError, one line: file, tensor, what was expected.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path, std::istream& stream);

/// Throws InputError where a byte of a BOOL tensor is neither 0 nor 1.
void require_bool(const std::filesystem::path& path, const std::string& tensor, const std::byte* bytes,
                  std::uint64_t count);

/// "F32"; nothing for a type that the format lacks.
std::optional<std::string_view> safetensors_type(at::ScalarType scalar);

}  // namespace taugrid::store::detail
