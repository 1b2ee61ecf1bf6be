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

namespace detail {

/// The header of a file whose tensors are known, and where their bytes are.
struct SafetensorsLayout {
  using Contents = std::map<std::string, MappedTensors::Info>;
  SafetensorsLayout(const std::filesystem::path& path, Contents contents,
                    const std::map<std::string, std::string>& metadata);
  /// Calls write(place in the file, bytes, count) with numbers of a tensor from `begin` on.
  template <class Write>
  void each(const std::string& name, std::int64_t begin, const at::Tensor& numbers, const Write& write) const;

  Contents contents;
  std::string head;
  std::map<std::string, std::uint64_t> begins;
  std::uint64_t size = 0;  ///< bytes of the file
};

}  // namespace detail

/// Complete or absent. The same content gives the same bytes.
class SafetensorsWriter {
 public:
  using Contents = detail::SafetensorsLayout::Contents;
  /// Throws InputError where the file cannot be written, or a name or type is none of the format.
  SafetensorsWriter(const std::filesystem::path& path, const Contents& contents,
                    const std::map<std::string, std::string>& metadata);

  /// Numbers begin … begin + n of the tensor; in any order, on any device.
  void write(const std::string& name, std::int64_t begin, const at::Tensor& numbers);
  void commit() { file_.commit(); }

 private:
  detail::SafetensorsLayout layout_;
  AtomicFile file_;
};

/// The same bytes, of a file that several processes write, each its own numbers, over several starts. It is
/// complete when all numbers of all tensors were written.
class SharedSafetensors {
 public:
  /// A file of zeros that is on the disk. Throws InputError as the other does.
  static void create(const std::filesystem::path& path, const SafetensorsWriter::Contents& contents,
                     const std::map<std::string, std::string>& metadata);
  /// Whether it is there as it was created. Throws InputError where that cannot be told.
  static bool stands(const std::filesystem::path& path, const SafetensorsWriter::Contents& contents,
                     const std::map<std::string, std::string>& metadata);
  /// Opens it. `others`: whether other processes write to it meanwhile. Throws InputError where it is
  /// missing, or has another size or header.
  SharedSafetensors(const std::filesystem::path& path, const SafetensorsWriter::Contents& contents,
                    const std::map<std::string, std::string>& metadata, bool others);
  ~SharedSafetensors();
  SharedSafetensors(const SharedSafetensors&) = delete;
  SharedSafetensors& operator=(const SharedSafetensors&) = delete;

  /// Numbers begin … begin + n of the tensor; in any order. The disk begins with them while more are made.
  void write(const std::string& name, std::int64_t begin, const at::Tensor& numbers);
  /// Returns when all that was written here is on the disk.
  void flush();

 private:
  void send(std::uint64_t place, std::uint64_t bytes);

  std::filesystem::path path_;
  detail::SafetensorsLayout layout_;
  bool others_;
  int descriptor_ = -1;
  std::uint64_t unsent_begin_ = 0, unsent_end_ = 0;  ///< bytes of the file that only memory has as yet
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
