// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/store/digest.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

#include "suite/error.hpp"

namespace taugrid::store {

void Digest::add(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    std::uint64_t word = 0;
    const auto part = std::min(bytes, sizeof word);
    std::memcpy(&word, next, part);
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 32;
    next += part;
    bytes -= part;
  }
}

void Digest::add(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  add(tensor.sizes().data(), tensor.sizes().size() * sizeof(std::int64_t));
  const auto plain = tensor.to(at::kCPU).contiguous();
  add(plain.const_data_ptr(), plain.nbytes());
}

std::uint64_t digest_of(const std::filesystem::path& path) {
  Digest digest;
  std::ifstream file(path, std::ios::binary);
  for (std::vector<char> part(std::size_t{1} << 20); file;) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    digest.add(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw InputError(path.string() + ": cannot be read");
  return digest.value();
}

}  // namespace taugrid::store
