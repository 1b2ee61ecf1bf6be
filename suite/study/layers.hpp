// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// A model's outputs layer by layer: 0 the embedding's, 1 … L the stages' (of a transformer the residual
// stream, all tokens; where it has a decoder the mean over the encoder's tokens and the decoder's own, as
// paper 5 has T5), L + 1 the encoder's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "suite/study/evaluation.hpp"

namespace taugrid::study {

class Layers {
 public:
  /// `chosen`: some of 0 … last(model), ascending. The other arguments outlive this object.
  Layers(const Model& model, const Evaluation& evaluation, std::vector<int> chosen);

  static int last(const Model& model) { return model.encoder().stages() + 1; }
  /// The layer with which a decoder begins, where the model has one.
  static std::optional<int> first_of_decoder(const Model& model);

  struct Layer {
    int number;
    std::int64_t numbers;      ///< of one sample, sequences at full length
    std::int64_t class_token;  ///< how many of them, the first ones, are the class token; 0: there is none
  };
  /// The chosen ones. The encoder's output is taken for its class token where features are read of one.
  const std::vector<Layer>& chosen() const { return layers_; }
  /// Which numbers a feature is of, in words.
  const char* feature() const;
  bool has_class_token() const { return has_class_token_; }
  /// Numbers of one sample's chosen layers together.
  double numbers() const;

  /// `see(k, feature)` for the k-th chosen layer, in their order; float32 [n, numbers], 0 for tokens that pad
  /// a sequence. No gradient is recorded.
  using See = std::function<void(std::size_t k, const at::Tensor& feature)>;
  /// One pass: f(x; θ).
  void outputs(const models::State& state, const models::Batch& batch, const See& see) const;
  /// One pass of all models of `weights`: `see(k, features)` for the k-th chosen layer, of each model in
  /// their order: of the layers that this rank has (StageWeights::line()). `before(part)` is called before
  /// each of its parts of the model.
  using SeeAll = std::function<void(std::size_t k, const std::vector<at::Tensor>& features)>;
  void outputs_by_stages(const StageWeights& weights, const models::Batch& batch,
                         const std::function<void(int)>& before, const SeeAll& see) const;
  /// One pass: J(x)τ at θ0, of every layer.
  void tangents(const at::Tensor& tau, const models::Batch& batch, const See& see) const;

 private:
  /// What is compared of the output h of layer l of a batch: float32 [n, numbers].
  at::Tensor feature_of(int l, at::Tensor h, const models::Batch& batch) const;
  template <class T, class Part>
  void visit(const models::Blocks<T>& blocks, const models::State& state, const models::Batch& batch,
             const See& see, const Part& part) const;

  const Model& model_;
  const Evaluation& evaluation_;
  std::vector<Layer> layers_;
  bool has_class_token_ = false;
};

}  // namespace taugrid::study
