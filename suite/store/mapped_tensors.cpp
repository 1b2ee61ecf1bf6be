// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/mapped_tensors.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <cstring>

#include "suite/error.hpp"
#include "suite/store/mapped_file.hpp"
#include "suite/store/quoted.hpp"
#include "suite/store/safetensors_header.hpp"

namespace taugrid::store {

MappedTensors::MappedTensors(const std::filesystem::path& path) : path_(path) {
  auto stream = detail::open_safetensors(path);
  auto header = detail::read_safetensors_header(path, stream);
  metadata_ = std::move(header.metadata);
  for (auto& entry : header.entries) {
    begin_[entry.name] = entry.begin;
    tensors_[entry.name] = {entry.scalar, std::move(entry.shape)};
  }
  bytes_ = map_file(path, 0, std::filesystem::file_size(path));
  for (const auto& [name, info] : tensors_) {
    const auto* begin = place(name, 0);
    if (info.scalar == at::kBool)
      detail::require_bool(path, name, begin, static_cast<std::uint64_t>(c10::multiply_integers(info.shape)));
    if (reinterpret_cast<std::uintptr_t>(begin) % c10::elementSize(info.scalar) != 0) continue;
    on_pages_[name] = at::from_blob(
        const_cast<std::byte*>(begin), {c10::multiply_integers(info.shape)}, [keep = bytes_](void*) {},
        at::TensorOptions(info.scalar));
  }
}

bool MappedTensors::current() const { return is_current(bytes_.get()); }

at::Tensor MappedTensors::tensor(const std::string& name) const {
  const auto entry = tensors_.find(name);
  if (entry == tensors_.end()) throw InputError(path_.string() + ": has no tensor " + quoted(name));
  const auto& shape = entry->second.shape;
  at::Tensor buffer;
  return numbers(name, 0, c10::multiply_integers(shape), buffer).view(shape);
}

at::Tensor MappedTensors::numbers(const std::string& name, std::int64_t begin, std::int64_t count,
                                  at::Tensor& buffer) const {
  if (const auto there = on_pages_.find(name); there != on_pages_.end())
    return there->second.narrow(0, begin, count);
  const auto scalar = tensors_.at(name).scalar;
  if (!buffer.defined() || buffer.scalar_type() != scalar || buffer.numel() < count)
    buffer = at::empty({count}, at::TensorOptions(scalar));
  auto copy = buffer.narrow(0, 0, count);
  std::memcpy(copy.mutable_data_ptr(), place(name, begin), copy.nbytes());
  return copy;
}

void MappedTensors::announce(const std::string& name, std::int64_t begin, std::int64_t count) const {
  const auto width = c10::elementSize(tensors_.at(name).scalar);
  will_read(place(name, begin), static_cast<std::size_t>(count) * width);
}

const std::byte* MappedTensors::place(const std::string& name, std::int64_t begin) const {
  const auto width = c10::elementSize(tensors_.at(name).scalar);
  return bytes_.get() + begin_.at(name) + static_cast<std::size_t>(begin) * width;
}

}  // namespace taugrid::store
