// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task vectors of models in Hugging Face folders of any architecture: names, types and shapes of their
// tensors are all that is asked of them. Files are mapped; a visit holds one stretch of each vector.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "suite/merging/adapter.hpp"
#include "suite/merging/matched_tensors.hpp"
#include "suite/merging/task_vectors.hpp"
#include "suite/store/tensor_folder.hpp"

namespace taugrid::merging {

using Weights = store::TensorFolder;
/// A model as its folder holds it: all its weights, or an adapter of θ0.
using Model = std::variant<Weights, Adapter>;

/// The weights in a folder, under the names that transformers has for them today. Throws InputError.
Weights open_weights(const std::filesystem::path& folder);
/// Opens the folder of a model. Throws InputError.
Model open_model(const std::filesystem::path& folder, const Weights& theta0);
std::uint64_t bytes_of(const Model& model);
const std::vector<std::string>& notes_of(const Model& model);

/// The floating-point tensors that θ0 and all whole models have, by name, are the vector; an adapter's is
/// zero in those that it does not change.
class CheckpointVectors final : public TaskVectors {
 public:
  /// From where the vectors lead to the models: from θ0, or from 0, where a vector is the whole model itself.
  enum class From { theta0, zero };
  /// `go_on` is called before each stretch, and may throw. Throws InputError as match_tensors() does, and
  /// where an adapter changes a tensor that is not merged.
  CheckpointVectors(const Weights& theta0, const std::vector<Model>& models, From from,
                    std::function<void()> go_on);
  /// Throws InputError, naming both folders, where two models say that they were fine-tuned from another θ0.
  void require_one_start() const;

  std::size_t count() const override { return models_.size(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }

  /// What becomes of the tensors that are not in the vector.
  const MatchedTensors& matched() const { return matched_; }

  std::size_t side_by_side() const override { return side_by_side_on_files; }
  bool has_start() const override { return !from_zero_; }
  /// Numbers of vectors that visits have come to so far; unlike visited(), it grows with each stretch.
  double come_to() const { return *come_to_; }
  /// The same vectors for another thread. Its visits count in come_to() of both.
  std::unique_ptr<CheckpointVectors> again(std::function<void()> go_on) const;

  /// Calls `see(tensor's name, its first number, numbers)` with the numbers begin … of τ of each tensor that
  /// they are in.
  void each_part(std::int64_t begin, const at::Tensor& tau,
                 const std::function<void(const std::string&, std::int64_t, const at::Tensor&)>& see) const;

  /// θ0 + λτ, or λτ where vectors lead from 0, of the numbers begin … of τ, in float32: `see(tensor's name,
  /// its first number, numbers)` of each tensor that they are in. The numbers are good until it returns.
  void add_to_theta0(
      std::int64_t begin, const at::Tensor& tau, double lambda,
      const std::function<void(const std::string&, std::int64_t, const at::Tensor&)>& see) const;

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override;
  void do_visit_stretches(const std::vector<std::size_t>& which, Range range, const StretchVisitor& visitor,
                          double share) const override;
  /// Whether θ and θ0 are bfloat16, θ on the file's own pages.
  bool are_bfloat16(const std::string& name, const Weights& model) const;
  /// Names the model's folder, or θ0's where this part of it, `start`, is not finite. `theta`, of a whole
  /// model: where both are finite, their difference is not.
  [[noreturn]] void refuse_not_finite(const std::filesystem::path& model, const NamedTensor& tensor,
                                      const at::Tensor& start, const at::Tensor& theta = {}) const;
  /// Numbers of θ0, or zeros.
  at::Tensor start(const NamedTensor& tensor, std::int64_t from, std::int64_t count,
                   at::Tensor& buffer) const;
  /// Calls see(tensor, part of it that is in the range).
  void each_tensor(Range range, const std::function<void(const NamedTensor&, Range)>& see) const;

  const Weights& start_;
  const std::vector<Model>& models_;
  bool from_zero_;
  std::function<void()> go_on_;
  mutable at::Tensor sum_, start_of_sum_;  ///< memory of add_to_theta0()
  mutable double share_ = 1;               ///< of the numbers of a visit, those that its visitor looks at
  std::shared_ptr<std::atomic<double>> come_to_ = std::make_shared<std::atomic<double>>(0);
  MatchedTensors matched_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace taugrid::merging
