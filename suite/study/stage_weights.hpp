// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Models that are larger than memory. Their weights stay in θ0's and the fine-tuned models' files; a stage's
// become float32 when it runs, of several edited models side by side, and are let go. Or they are θ0's and a
// direction's, for J(x)τ.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/autodiff/numbers.hpp"
#include "kernels/range.hpp"
#include "suite/study/edit.hpp"
#include "suite/study/stage_line.hpp"
#include "suite/study/vectors.hpp"

namespace taugrid::study {

class StageWeights {
 public:
  /// No model yet. The study and the group outlive this object. Where a model's parts are shared out to the
  /// group's ranks ([model] in_memory = "stretches"), all make it and make the same calls.
  StageWeights(const Study& study, const comm::Communicator& group);

  /// Adds the models of an edit: of θ0 itself, of terms, or of a sum. Returns the number of the first. Throws
  /// InputError where a fine-tuned model's file is not one of θ0's.
  std::int64_t add(const Edit& edit);
  /// Instead: θ0 and the direction τ = c Σ τₜ of these tasks, which are one model of dual numbers θ0 + ετ.
  void go_along(const std::string& regime, const std::vector<std::size_t>& tasks, double c = 1);
  bool goes_along() const { return goes_along_; }
  /// Models that go through a pass.
  std::int64_t size() const { return goes_along_ ? 1 : static_cast<std::int64_t>(models_.size()); }

  /// Part 0 is the embedding, 1 … L are the stages, L + 1 makes the features.
  int last_part() const;
  /// Who has which parts.
  const StageLine& line() const { return line_; }

  /// Which parts and models a pass goes through.
  struct Pass {
    Range models;
    models::Reach reach = models::Reach::read;  ///< of the last stage
    bool vocabulary = false;                    ///< whether the last part's blocks are read by words
    at::ScalarType type = at::kFloat;
  };
  /// `see(part, model, batch, h, p)` for each part's output h of each model, numbered from pass.models.begin
  /// on as all are, with the blocks p that it was made with: of the parts that this rank has. Models go
  /// through a part one after another, each with all batches.
  template <class T>
  using See = std::function<void(int part, std::int64_t model, std::size_t batch, const T& h,
                                 const models::Blocks<T>& p)>;
  /// In tensors, or along a direction in dual numbers. `before(part)` is called before each of these parts.
  /// Weights are bitwise those of θ0 + Σ αₜτₜ; where the bound holds them, they are kept for the next pass of
  /// the same models. Throws InputError where a file holds NaN or infinity.
  template <class T>
  void run(const Pass& pass, std::span<const models::Given> batches, const std::function<void(int)>& before,
           const See<T>& see) const;

  /// How many models go through a pass together, of so many inputs each, and how many inputs of all, with so
  /// many tokens behind each: what lies between two parts stays within the bound.
  std::int64_t models_at_once(std::int64_t inputs) const;
  std::int64_t inputs_at_once(std::int64_t tokens = 0) const;
  /// Whether the bound holds a rank's parts of so many models, so that they are made once for many passes.
  bool keeps(std::int64_t models) const;
  static std::int64_t inputs_at_once(const Study& study, std::int64_t tokens = 0);
  /// The shape of what lies between two parts, of this batch.
  static std::vector<std::int64_t> shape_between(const models::Encoder& encoder, const models::Batch& batch);
  /// Its bytes, of one input.
  static double bytes_between(const Study& study);
  /// Bytes of the weights that lie in memory at once at most, of so many models, and whether they are kept,
  /// on any of so many ranks that share out the parts. Where they are not kept, `together` models' at least.
  static double most_bytes(const Study& study, std::int64_t models, int ranks = 1, std::int64_t together = 1);
  static bool keeps(const Study& study, std::int64_t models, int ranks = 1);

 private:
  struct Model {
    bool is_sum = false;             // θ0 + α Σ τ
    std::vector<std::size_t> files;  // of its task vectors
    at::Tensor alpha;                // float64 [1, files], or of a sum [1, 1]
  };
  using Blocks = models::Blocks<at::Tensor>;
  /// Weights that stay for the next pass of the same models: by part, of each model; empty: not made yet.
  struct Kept {
    Pass pass;
    std::vector<std::vector<Blocks>> parts = {};
  };
  bool keeps(const Pass& pass) const;
  /// The models whose weights a pass through these takes.
  Range weights_of(Range models) const { return goes_along_ ? Range{0, 2} : models; }
  /// The blocks that the part uses of these models, on the device; other blocks are undefined.
  std::vector<Blocks> blocks_of(Range models, int part, const Pass& pass) const;
  void make(Range models, const autodiff::Block& block, std::span<const at::Tensor> out) const;
  void make_stretch(Range models, Range range, std::span<const at::Tensor> out) const;
  /// Lets the disk read the blocks of a part.
  void announce(int part, const Pass& pass) const;
  std::size_t file_of(const std::string& regime, std::size_t task);

  const Study& study_;
  StageLine line_;
  mutable std::optional<Kept> kept_;
  std::vector<std::string> folders_;
  std::vector<std::shared_ptr<const ThetaFile>> files_;  // by folder
  std::vector<Model> models_;
  bool goes_along_ = false;
  mutable store::ReadAhead disk_;
};

}  // namespace taugrid::study
