// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Safetensors files that are written piece by piece, so that no tensor need be whole in memory, or tensor by
// tensor, so that shapes need not be known before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

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

/// Complete or absent, too: tensors one after another, whose names alone are known before.
class SafetensorsAppender {
 public:
  /// `names`: of all tensors that may come, of eight dimensions at most. Throws InputError as the other does.
  SafetensorsAppender(const std::filesystem::path& path, const std::vector<std::string>& names,
                      std::map<std::string, std::string> metadata);

  /// A whole tensor, on any device.
  void append(const std::string& name, const at::Tensor& tensor);
  /// Writes the header into the room that was left for it.
  void commit();

 private:
  std::filesystem::path path_;
  std::map<std::string, std::string> metadata_;
  AtomicFile file_;
  std::size_t room_ = 0;  ///< bytes of the header
  std::uint64_t end_ = 0;
  struct Placed {
    MappedTensors::Info info;
    std::uint64_t begin, end;
  };
  std::map<std::string, Placed> placed_;
};

}  // namespace taugrid::store
