// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "suite/error.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/safetensors_header.hpp"
#include "suite/store/safetensors_writer.hpp"

namespace taugrid::store {

using detail::TensorEntry;

namespace {

/// All tensors, or the one of that name.
TensorFile read(const std::filesystem::path& path, const std::string& only) {
  auto stream = detail::open_safetensors(path);
  auto header = detail::read_safetensors_header(path, stream);
  TensorFile result;
  result.metadata = std::move(header.metadata);
  for (const auto& entry : header.entries) {
    if (!only.empty() && entry.name != only) continue;
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.scalar));
    const auto bytes = entry.end - entry.begin;
    stream.seekg(static_cast<std::streamoff>(entry.begin));
    if (bytes > 0 && !stream.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(bytes)))
      throw InputError(path.string() + ": cannot read " + std::to_string(bytes) + " bytes at offset " +
                       std::to_string(entry.begin));
    if (entry.scalar == at::kBool)
      detail::require_bool(path, entry.name, static_cast<const std::byte*>(tensor.data_ptr()), bytes);
    result.tensors.emplace(entry.name, std::move(tensor));
  }
  return result;
}

}  // namespace

TensorFile read_safetensors(const std::filesystem::path& path) { return read(path, {}); }

at::Tensor read_tensor(const std::filesystem::path& path, const std::string& name) {
  auto file = read(path, name);
  if (file.tensors.empty()) throw InputError(path.string() + ": has no tensor " + quoted(name));
  return file.tensors.begin()->second;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  SafetensorsWriter::Contents contents;
  for (const auto& [name, tensor] : file.tensors) {
    contents[name] = {tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined,
                      tensor.defined() ? tensor.sizes().vec() : std::vector<std::int64_t>{}};
  }
  SafetensorsWriter writer(path, contents, file.metadata);
  for (const auto& [name, tensor] : file.tensors) writer.write(name, 0, tensor);
  writer.commit();
}

void require_finite(const TensorFile& file, const std::filesystem::path& path) {
  for (const auto& [name, tensor] : file.tensors) {
    if (at::isFloatingType(tensor.scalar_type()) && !at::isfinite(tensor).all().item<bool>()) {
      throw InputError((path.empty() ? "" : path.string() + ": ") + "tensor " + quoted(name) +
                       " has a NaN or an infinity; expected finite numbers");
    }
  }
}

}  // namespace taugrid::store
