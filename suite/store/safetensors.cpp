// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "suite/error.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/safetensors_header.hpp"

namespace taugrid::store {

using detail::quoted;
using detail::TensorEntry;
using Json = nlohmann::json;

namespace {

void check_bool(const std::filesystem::path& path, const TensorEntry& entry, const at::Tensor& tensor) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.data_ptr());
  if (std::any_of(bytes, bytes + tensor.numel(), [](unsigned char b) { return b > 1; }))
    throw InputError(path.string() + ": tensor " + quoted(entry.name) + ": a BOOL is neither 0 nor 1");
}

/// All tensors, or the one of that name.
TensorFile read(const std::filesystem::path& path, const std::string& only) {
  std::ifstream stream(path, std::ios::binary);
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
    if (entry.scalar == at::kBool) check_bool(path, entry, tensor);
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
  // Wide types first keeps every tensor aligned; within a width by name.
  std::vector<std::pair<std::string, at::Tensor>> ordered(file.tensors.begin(), file.tensors.end());
  for (const auto& [name, tensor] : ordered) {
    if (!tensor.defined() || !detail::safetensors_type(tensor.scalar_type()) || name == "__metadata__") {
      throw InputError("cannot write " + path.string() + ": tensor " + quoted(name) +
                       " has a name or type that safetensors lacks");
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  Json header = Json::object();
  if (!file.metadata.empty()) {
    header["__metadata__"] = file.metadata;
  }
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::uint64_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", *detail::safetensors_type(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw InputError("cannot write " + path.string() + ": a name or the metadata is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  }
  write_atomically(path, [&](AtomicFile& out) {
    out.write(length.data(), length.size());
    out.write(text);
    for (const auto& entry : ordered) {
      const at::Tensor plain = entry.second.detach().cpu().contiguous();
      out.write(plain.data_ptr(), plain.nbytes());
    }
  });
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
