// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Digests of what files hold, by which a changed one is known again. They tell changes, not attacks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "suite/hash.hpp"

namespace taugrid::store {

/// A digest of bytes, in words of eight: data sets have gigabytes. A part whose bytes are no whole words is
/// padded with zeros.
class Digest {
 public:
  void add(const void* data, std::size_t bytes);
  /// The shape, then the numbers; nothing of an undefined tensor.
  void add(const at::Tensor& tensor);
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = fnv_start;
};

/// The digest of the whole file. Throws InputError where it cannot be read.
std::uint64_t digest_of(const std::filesystem::path& path);

}  // namespace taugrid::store
