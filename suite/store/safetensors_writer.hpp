// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A safetensors file whose tensors are written piece by piece, so that none need be whole in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "suite/store/atomic_file.hpp"
#include "suite/store/mapped_tensors.hpp"

namespace taugrid::store {

/// Complete or absent. The same content gives the same bytes.
class SafetensorsWriter {
 public:
  using Contents = std::map<std::string, MappedTensors::Info>;
  /// Throws InputError where the file cannot be written, or a name or type is none of the format.
  SafetensorsWriter(const std::filesystem::path& path, const Contents& contents,
                    const std::map<std::string, std::string>& metadata);

  /// Numbers begin … begin + n of the tensor; in any order, on any device.
  void write(const std::string& name, std::int64_t begin, const at::Tensor& numbers);
  void commit() { file_.commit(); }

 private:
  Contents contents_;
  std::map<std::string, std::uint64_t> begin_;
  AtomicFile file_;
};

}  // namespace taugrid::store
