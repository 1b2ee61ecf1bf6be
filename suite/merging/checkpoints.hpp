// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task vectors of models in Hugging Face folders of any architecture: names, types and shapes of their
// tensors are all that is asked of them. Files are mapped; a visit holds one stretch of each vector.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "suite/merging/task_vectors.hpp"
#include "suite/store/mapped_tensors.hpp"

namespace taugrid::merging {

/// The tensors of FOLDER/model.safetensors, or of the parts that FOLDER/model.safetensors.index.json lists.
class Weights {
 public:
  /// Throws InputError where there is neither, or a part is missing or wrong.
  explicit Weights(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const std::map<std::string, store::MappedTensors::Info>& tensors() const { return tensors_; }
  /// MappedTensors::numbers() of the tensor of this name.
  at::Tensor numbers(const std::string& name, std::int64_t begin, std::int64_t count, at::Tensor& own) const;
  /// A file of the model, and its tensors.
  struct Part {
    std::string file;
    store::MappedTensors tensors;
  };
  const std::vector<Part>& parts() const { return parts_; }
  bool in_parts() const { return in_parts_; }  ///< whether there is an index
  double bytes() const;
  /// Of the θ0 that it was fine-tuned from, as our own checkpoints say in their headers; empty: it is not
  /// said.
  std::string start() const;

 private:
  void add(const std::string& file);

  std::filesystem::path folder_;
  bool in_parts_ = false;
  std::vector<Part> parts_;
  std::map<std::string, store::MappedTensors::Info> tensors_;
  std::map<std::string, std::size_t> part_of_;
};

/// The tensors of floating-point numbers, by name, are the vector; others (counters, tables of indices) are
/// θ0's.
class CheckpointVectors final : public TaskVectors {
 public:
  /// Throws InputError, naming both folders, where a model's tensors are not those of θ0; and where there is
  /// nothing to merge, or in numbers of 64 or of 8 bits.
  CheckpointVectors(const Weights& theta0, const std::vector<Weights>& models);
  /// Throws InputError, naming both folders, where two models say that they were fine-tuned from another θ0.
  void require_one_start() const;

  std::size_t count() const override { return models_.size(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }

  std::size_t side_by_side() const override { return side_by_side_on_files; }

  /// θ0 + λτ of the numbers begin … of τ: `see(tensor's name, its first number, numbers in the tensor's own
  /// type)` of each tensor that they are in. Throws InputError where the type cannot hold one.
  void add_to_theta0(
      std::int64_t begin, const at::Tensor& tau, double lambda,
      const std::function<void(const std::string&, std::int64_t, const at::Tensor&)>& see) const;

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override;
  void do_visit_stretches(const std::vector<std::size_t>& which, Range range,
                          const StretchVisitor& visitor) const override;
  /// Names the model, or θ0 where this part of it, `start`, is not finite.
  [[noreturn]] void refuse_not_finite(const Weights& model, const NamedTensor& tensor,
                                      const at::Tensor& start) const;
  /// Calls see(tensor, part of it that is in the range).
  void each_tensor(Range range, const std::function<void(const NamedTensor&, Range)>& see) const;

  const Weights& start_;
  const std::vector<Weights>& models_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace taugrid::merging
