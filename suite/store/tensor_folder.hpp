// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The tensors of a Hugging Face folder: of one file, or of parts and their index.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "suite/store/mapped_tensors.hpp"

namespace taugrid::store {

class TensorFolder {
 public:
  /// Maps FOLDER/model.safetensors, or the parts that FOLDER/model.safetensors.index.json lists. Throws
  /// InputError where there is neither, a file is wrong, or the index and its parts disagree about a tensor.
  explicit TensorFolder(std::filesystem::path folder);

  /// Whether the folder has a model.safetensors, or an index of parts.
  static bool is_in(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  bool in_parts() const { return in_parts_; }  ///< whether there is an index
  const std::map<std::string, MappedTensors::Info>& tensors() const { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// The path of the file, or of the parts' index, for messages.
  std::string files() const {
    return (folder_ / (in_parts_ ? "model.safetensors.index.json" : "model.safetensors")).string();
  }
  /// The path of the file that holds the tensor of this name, which must be there.
  std::filesystem::path file_of(const std::string& name) const { return folder_ / part_of(name); }
  /// The name that a tensor has in its file.
  const std::string& stored_name(const std::string& name) const { return places_.at(name).stored; }
  /// Gives tensors other names than their files do, and leaves those out that get an empty one. Throws
  /// InputError where two get the same.
  void rename(const std::function<std::string(const std::string&)>& renamed);
  /// Rows that a tensor has in the place of its own, along its first dimension.
  struct Rows {
    /// Each is a row of the file, or −1 − i, which is row i of `further`, the one behind its last being
    /// `last`.
    std::vector<std::int64_t> index;
    at::Tensor further;  ///< [any, numbers of a row], float32; several folders may share it
    at::Tensor last;     ///< [numbers of a row], float32
  };
  /// From now on the tensor, of one dimension at least and with a number in a row, is read with these rows,
  /// in float32; its type stays that of the file. Rows are gathered as they are read.
  void arrange(const std::string& name, Rows rows);
  bool is_arranged(const std::string& name) const { return places_.at(name).rows != nullptr; }
  /// Bytes of memory that rows which are not the file's take; 0 where all are.
  std::uint64_t bytes_of_rows(const std::string& name) const;
  /// An entry of the files' metadata; empty where none has it.
  std::string metadata(const std::string& key) const;
  std::uint64_t bytes() const;  ///< of the files
  /// What is said of the folder though it is read: a line each.
  const std::vector<std::string>& notes() const { return notes_; }
  void note(std::string line) { notes_.push_back(std::move(line)); }

  // As those of MappedTensors, of whichever part has the tensor, which must be there.
  at::Tensor tensor(const std::string& name) const;
  at::Tensor numbers(const std::string& name, std::int64_t begin, std::int64_t count,
                     at::Tensor& buffer) const;
  bool is_on_pages(const std::string& name) const {
    return places_.at(name).rows == nullptr && mapped(name).is_on_pages(stored_name(name));
  }
  void announce(const std::string& name, std::int64_t begin, std::int64_t count) const {
    mapped(name).announce(stored_name(name), begin, count);
  }
  bool current() const;

 private:
  /// A file of the model, and its tensors.
  struct Part {
    std::string file;
    MappedTensors tensors;
  };
  struct Place {
    std::size_t part;
    std::string stored;  ///< its name there
    std::shared_ptr<const Rows> rows = nullptr;
  };
  const std::string& part_of(const std::string& name) const { return parts_[places_.at(name).part].file; }
  const MappedTensors& mapped(const std::string& name) const { return parts_[places_.at(name).part].tensors; }
  void add(const std::string& file);
  std::uint64_t of_tensors() const;  ///< bytes of all tensors
  /// Throws InputError where the index names other tensors than its parts have, or other places.
  void require_as_listed(const std::filesystem::path& index,
                         const std::map<std::string, std::string>& places) const;

  std::filesystem::path folder_;
  bool in_parts_ = false;
  std::vector<Part> parts_;
  std::vector<std::string> notes_;
  std::map<std::string, MappedTensors::Info> tensors_;
  std::map<std::string, Place> places_;
};

}  // namespace taugrid::store
