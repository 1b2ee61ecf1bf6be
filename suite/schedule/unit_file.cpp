// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/schedule/detail/unit_file.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "suite/hash.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/safetensors_header.hpp"

namespace taugrid::schedule::detail {

std::optional<std::map<std::string, std::string>> read_header(const std::filesystem::path& path) {
  const store::InputFile file(path);
  const auto bytes = file.size();
  std::uint64_t length = 0;
  const auto first = file.read(0, sizeof length);
  if (first.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, first.data(), sizeof length);
  if (length > store::detail::header_limit || length > bytes - sizeof length) return std::nullopt;
  const auto text = file.read(sizeof length, length);
  try {
    std::map<std::string, std::string> entries;
    std::uint64_t end = 0;
    const auto header = nlohmann::json::parse(text);  // named: items() refers to it
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        entries = value.get<std::map<std::string, std::string>>();
      } else {
        const auto& offset = value.at("data_offsets").at(1);
        if (!offset.is_number_unsigned())
          return std::nullopt;  // of others, the library converts what it cannot
        end = std::max(end, offset.get<std::uint64_t>());
      }
    }
    return bytes - sizeof length - length == end ? std::optional(entries) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string digest_of(const store::TensorFile& file) {
  auto hash = fnv_start;
  for (const auto& [name, tensor] : file.tensors) {
    const auto plain = tensor.detach().cpu().contiguous();
    hash = fnv1a(plain.const_data_ptr(), plain.nbytes(), fnv1a(name, hash));
  }
  return hexadecimal(hash);
}

std::string digest_of_header(const store::TensorFile& file) {
  auto hash = fnv_start;
  for (const auto& [name, value] : file.metadata)
    if (name != header_digest) hash = fnv1a(name + '\0' + value + '\0', hash);
  for (const auto& [name, tensor] : file.tensors)
    hash = fnv1a(fmt::format("{} {} {}", name, at::toString(tensor.scalar_type()), tensor.sizes()), hash);
  return hexadecimal(hash);
}

std::string damage_of(const store::TensorFile& file, std::string_view key) {
  const auto& header = file.metadata;
  if (const auto name = header.find("key"); name != header.end() && name->second != key)
    return "is the unit " + name->second;
  if (const auto digest = header.find("digest"); digest != header.end() && digest->second != digest_of(file))
    return "does not hold the numbers that were written";
  if (const auto digest = header.find(header_digest);
      digest != header.end() && digest->second != digest_of_header(file))
    return "does not have the header that was written";
  return "";
}

}  // namespace taugrid::schedule::detail
