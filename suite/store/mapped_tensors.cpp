// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/mapped_tensors.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <fstream>

#include "suite/error.hpp"
#include "suite/store/mapped_file.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/safetensors_header.hpp"

namespace taugrid::store {

MappedTensors::MappedTensors(const std::filesystem::path& path) : path_(path) {
  std::ifstream stream(path, std::ios::binary);
  auto header = detail::read_safetensors_header(path, stream);
  metadata_ = std::move(header.metadata);
  for (auto& entry : header.entries) {
    begin_[entry.name] = entry.begin;
    tensors_[entry.name] = {entry.scalar, std::move(entry.shape)};
  }
  bytes_ = map_file(path, 0, std::filesystem::file_size(path));
}

bool MappedTensors::current() const { return is_current(bytes_.get()); }

at::Tensor MappedTensors::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw InputError(path_.string() + ": has no tensor " + quoted(name));
  const auto& [scalar, shape] = found->second;
  const auto* at = bytes_.get() + begin_.at(name);
  const auto width = c10::elementSize(scalar);
  if (reinterpret_cast<std::uintptr_t>(at) % width != 0) {  // others' headers may be of any length
    auto copy = at::empty(shape, at::TensorOptions(scalar));
    std::memcpy(copy.mutable_data_ptr(), at, copy.nbytes());
    return copy;
  }
  return at::from_blob(
      const_cast<std::byte*>(at), shape, [keep = bytes_](void*) {}, at::TensorOptions(scalar));
}

}  // namespace taugrid::store
