// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A safetensors file that is mapped, not read: pages come as they are touched, and go when memory is short.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace taugrid::store {

class MappedTensors {
 public:
  struct Info {
    at::ScalarType scalar = at::kFloat;
    std::vector<std::int64_t> shape;
  };
  /// Throws InputError as read_safetensors() does.
  explicit MappedTensors(const std::filesystem::path& path);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Type and shape of each tensor, by name.
  const std::map<std::string, Info>& tensors() const { return tensors_; }
  /// Whether the file of this name is still the one that is mapped, and was not written to since.
  bool current() const;
  /// The tensor on the file's pages, which live as long as it does; it must not be written to. Where its
  /// place in the file does not suit its type, since others' headers may be of any length, it is a copy.
  /// Throws InputError where there is none of that name.
  at::Tensor tensor(const std::string& name) const;
  /// `count` numbers from `begin` on, [count], of a tensor that has them: on the pages as well, or a copy of
  /// no more than these in `buffer`, which grows to hold them. The copy is good until `buffer` is used again.
  at::Tensor numbers(const std::string& name, std::int64_t begin, std::int64_t count,
                     at::Tensor& buffer) const;
  /// Whether it lies on the pages as it is.
  bool is_on_pages(const std::string& name) const { return on_pages_.contains(name); }
  /// Lets the disk read them while others are worked on.
  void announce(const std::string& name, std::int64_t begin, std::int64_t count) const;

 private:
  const std::byte* place(const std::string& name, std::int64_t begin) const;

  std::filesystem::path path_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Info> tensors_;
  std::map<std::string, std::uint64_t> begin_;
  std::map<std::string, at::Tensor> on_pages_;  ///< flat, those whose place suits their type
  std::shared_ptr<const std::byte> bytes_;
};

}  // namespace taugrid::store
