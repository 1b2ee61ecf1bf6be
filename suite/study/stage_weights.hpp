// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Models that are larger than memory. Their weights stay in θ0's and the fine-tuned models' files; a stage's
// become float32 when it runs, of several edited models side by side, and are let go.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/range.hpp"
#include "suite/study/edit.hpp"
#include "suite/study/vectors.hpp"

namespace taugrid::study {

class StageWeights {
 public:
  /// No model yet. The study outlives this object.
  explicit StageWeights(const Study& study);

  /// Adds the models of an edit: of θ0 itself, of terms, or of a sum. Returns the number of the first. Throws
  /// InputError where a fine-tuned model's file is not one of θ0's.
  std::int64_t add(const Edit& edit);
  std::int64_t size() const { return static_cast<std::int64_t>(models_.size()); }

  /// Part 0 is the embedding, 1 … L are the stages, L + 1 makes the features.
  int last_part() const;
  /// The blocks that part `part` uses, and with `vocabulary` those that words are read by, of these models,
  /// in numbers of `type`, on the device; other blocks are undefined. They are bitwise those of θ0 + Σ αₜτₜ.
  /// Throws InputError where a file holds NaN or infinity.
  std::vector<models::Blocks<at::Tensor>> of(Range models, int part, bool vocabulary,
                                             at::ScalarType type) const;

  /// Which parts and models a pass goes through.
  struct Pass {
    Range models;
    models::Reach reach = models::Reach::read;  ///< of the last stage
    bool vocabulary = false;                    ///< whether the last part's blocks are read by words
    at::ScalarType type = at::kFloat;
  };
  /// `see(part, model, batch, h, p)` for each part's output h of each model, numbered from pass.models.begin
  /// on as all are, with the blocks p that it was made with. Models go through a part one after another, each
  /// with all batches.
  using See = std::function<void(int part, std::int64_t model, std::size_t batch, const at::Tensor& h,
                                 const models::Blocks<at::Tensor>& p)>;
  /// `before(part)` is called before each part.
  void run(const Pass& pass, std::span<const models::Given> batches, const std::function<void(int)>& before,
           const See& see) const;

  /// How many models go through a pass together, of so many inputs each, and how many inputs of all: what
  /// lies between two parts stays within the bound.
  std::int64_t models_at_once(std::int64_t inputs) const;
  std::int64_t inputs_at_once() const { return inputs_at_once(study_); }
  static std::int64_t inputs_at_once(const Study& study);
  /// The shape of what lies between two parts, of this batch.
  static std::vector<std::int64_t> shape_between(const models::Encoder& encoder, const models::Batch& batch);
  /// Its bytes, of one input.
  static double bytes_between(const Study& study);
  /// Bytes of the weights that lie in memory at once at most, of so many models.
  static double most_bytes(const Study& study, std::int64_t models);

 private:
  struct Model {
    bool is_sum = false;
    std::vector<std::size_t> files;  // of its task vectors
    at::Tensor alpha;                // float64 [1, files], or of a sum [1, 1]
  };
  using Blocks = models::Blocks<at::Tensor>;
  void make(Range models, const autodiff::Block& block, std::span<const at::Tensor> out) const;
  void make_stretch(Range models, Range range, std::span<const at::Tensor> out) const;
  /// Lets the disk read the blocks of a part.
  void announce(int part, bool vocabulary) const;
  std::size_t file_of(const std::string& regime, std::size_t task);

  const Study& study_;
  std::vector<std::string> folders_;
  std::vector<std::shared_ptr<const ThetaFile>> files_;  // by folder
  std::vector<Model> models_;
  mutable store::ReadAhead disk_;
};

}  // namespace taugrid::study
