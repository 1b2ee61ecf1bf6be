// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/mapped_tensors.hpp"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "suite/error.hpp"
#include "suite/store/safetensors_header.hpp"

namespace taugrid::store {
namespace {

std::shared_ptr<const std::byte> map(const std::filesystem::path& path, std::size_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* address = file < 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  if (file >= 0) ::close(file);
  if (address == MAP_FAILED)
    throw InputError(path.string() + ": cannot be mapped: " + std::generic_category().message(error));
  return {static_cast<const std::byte*>(address),
          [bytes](const std::byte* at) { ::munmap(const_cast<std::byte*>(at), bytes); }};
}

}  // namespace

MappedTensors::MappedTensors(const std::filesystem::path& path) : path_(path) {
  std::ifstream stream(path, std::ios::binary);
  auto header = detail::read_safetensors_header(path, stream);
  metadata_ = std::move(header.metadata);
  for (auto& entry : header.entries) {
    begin_[entry.name] = entry.begin;
    tensors_[entry.name] = {entry.scalar, std::move(entry.shape)};
  }
  bytes_ = map(path, std::filesystem::file_size(path));
}

at::Tensor MappedTensors::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw InputError(path_.string() + ": has no tensor " + detail::quoted(name));
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
