// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The weights and buffers of edited models. Buffers, the statistics of batch norm, follow by the rule of
// `model.buffers`; θ0 itself, one task's own model and a joint model have their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "suite/study/edit.hpp"
#include "suite/study/samples.hpp"
#include "suite/study/vectors.hpp"

namespace taugrid::study {

class Edits {
 public:
  /// All arguments outlive this object.
  Edits(const Settings& settings, const Model& model, const Samples& samples, const Vectors& vectors)
      : settings_(settings), model_(model), samples_(samples), vectors_(vectors) {}

  /// The edit's models in order, `see(k, state)`. Of terms as many are held together as at_once() says, so
  /// that each vector is read once for them. A linear regime's model is the state θ0 + Σ αₜτₜ too: what it
  /// says is EditedOutputs' to know.
  void each(const Edit& edit, const std::function<void(std::int64_t, const models::State&)>& see) const;
  std::int64_t at_once() const;

  /// The model of an edit that has one.
  models::State state(const Edit& edit) const;

  /// Whether the regime's edits compute statistics again, of so many points of each of `tasks` tasks.
  bool recomputes(const std::string& regime) const;
  std::int64_t points_a_task(std::size_t tasks) const;
  /// β [B] of the weights θ over the training points of these tasks: each batch has a share of all of them,
  /// and the batches' means and unbiased variances are averaged, as by torch.optim.swa_utils.update_bn
  /// (Izmailov et al., 2018, algorithm 1). Frozen stages keep θ0's.
  at::Tensor recomputed(const at::Tensor& theta, const std::vector<std::size_t>& tasks) const;
  /// Mean and unbiased variance of one batch, of each norm behind the frozen stages, in float64.
  std::vector<at::Tensor> statistics_of(const at::Tensor& theta, const models::Batch& batch) const;

 private:
  void each_of_terms(const Edit& edit,
                     const std::function<void(std::int64_t, const models::State&)>& see) const;
  /// A model whose vectors have the coefficients `alpha` [|tasks|] and whose weights are θ. Along a direction
  /// the mean of the vectors' buffers counts, of which methods that merge weights say nothing.
  at::Tensor buffers(const Edit& edit, const at::Tensor& alpha, const at::Tensor& theta) const;
  at::Tensor averaged(const std::string& regime, const std::vector<std::size_t>& tasks,
                      const at::Tensor& alpha) const;

  const Settings& settings_;
  const Model& model_;
  const Samples& samples_;
  const Vectors& vectors_;
  mutable std::map<std::string, at::Tensor> recomputed_;  // asked for again with each batch of points
};

}  // namespace taugrid::study
