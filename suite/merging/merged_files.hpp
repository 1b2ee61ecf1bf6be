// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The files of a merged model's weights, with tensors in the types that were asked for: the base's own parts
// and names, or parts of max_shard_size, of slices in the order of the layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "suite/merging/stages.hpp"
#include "suite/store/mapped_file.hpp"
#include "suite/store/safetensors_writer.hpp"
#include "suite/store/write_behind.hpp"

namespace taugrid::merging {

class MergedFiles {
 public:
  /// `stages` and `go_on`, which may throw, outlive it.
  MergedFiles(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages,
              const std::function<void()>& go_on);

  /// Makes the files, of zeros, and the parts' index. By one rank.
  void create(const std::filesystem::path& folder) const;
  /// Whether an earlier start left the files as it had created them.
  bool stand_in(const std::filesystem::path& folder) const;
  /// `others`: whether other ranks write as well. Throws InputError where files are not as they were created.
  void open(const std::filesystem::path& folder, bool others);

  /// Merged numbers of a tensor, from `begin` on. Several threads may call it. Throws InputError where the
  /// type cannot hold one.
  void write(const Stage& stage, const std::string& name, std::int64_t begin, const at::Tensor& numbers);
  /// All that is not merged, by stretches: a tensor may be larger than memory. A rank's share of them. Throws
  /// InputError where the type cannot hold a number of the base's that another type holds.
  void carry_over(const Stage& stage, const Team& team);
  void flush();
  std::int64_t written() const { return written_; }  ///< bytes, here
  /// Bytes of all tensors.
  std::uint64_t bytes() const;

 private:
  struct Place {
    std::string name, file;
    store::SharedSafetensors* writer = nullptr;
  };
  using Key = std::pair<const Stage*, std::string>;

  at::ScalarType written_as(at::ScalarType scalar) const;
  std::uint64_t bytes_of(const store::MappedTensors::Info& info) const;
  void place_all(const Recipe& recipe, const std::vector<std::unique_ptr<Stage>>& stages);
  void put(const Stage& stage, const std::string& name, std::int64_t begin, const at::Tensor& numbers,
           bool merged);

  std::optional<at::ScalarType> dtype_;
  const std::function<void()>& go_on_;
  std::map<std::string, store::SafetensorsWriter::Contents> files_;
  bool in_parts_ = false;
  std::list<store::SharedSafetensors> writers_;
  std::optional<store::WriteBehind> behind_;  // uses the writers
  std::map<Key, Place> places_;
  std::atomic<std::int64_t> written_ = 0;
};

}  // namespace taugrid::merging
