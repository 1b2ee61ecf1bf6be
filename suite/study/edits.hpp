// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// An edit makes a model of θ0 and task vectors: θ0 + Σ αₜτₜ (paper 1, section 2). Buffers, the statistics of
// batch norm, follow by the rule of `model.buffers`; what is no edit, θ0 itself or one task's own model, has
// its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "suite/study/vectors.hpp"

namespace taugrid::study {

class Edits {
 public:
  /// All arguments outlive this object.
  Edits(const Settings& settings, const Model& model, const Tasks& tasks, const Vectors& vectors)
      : settings_(settings), model_(model), tasks_(tasks), vectors_(vectors) {}

  /// K models at once, for K rows of coefficients `alpha` [K, |tasks|] of the regime's vectors: `see(k, state)`
  /// in order. As many are held together as at_once() says, so that each vector is read once for them.
  void each(const std::string& regime, const std::vector<std::size_t>& tasks, const at::Tensor& alpha,
            const std::function<void(std::int64_t, const models::State&)>& see) const;
  std::int64_t at_once() const;

  /// θ0 + α Σ τ over these tasks.
  models::State sum(const std::string& regime, const std::vector<std::size_t>& tasks, double alpha) const;

  /// θ0 + ατ, τ [P] merged of these tasks' vectors. Where buffers are averaged, of which methods say nothing,
  /// it has α times the mean.
  models::State along(const std::string& regime, const std::vector<std::size_t>& tasks, const at::Tensor& tau,
                      double alpha) const;

  /// θ0 + τ with the buffers that τ was trained with: a task's own model.
  models::State own(const std::string& regime, std::size_t t) const;

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
  /// Of the edit with these coefficients, whose weights are θ; `name` tells ways apart that round otherwise,
  /// empty where coefficients do not say what θ is.
  at::Tensor buffers(const std::string& name, const std::string& regime,
                     const std::vector<std::size_t>& tasks, const at::Tensor& alpha,
                     const at::Tensor& theta) const;
  at::Tensor averaged(const std::string& regime, const std::vector<std::size_t>& tasks,
                      const at::Tensor& alpha) const;

  const Settings& settings_;
  const Model& model_;
  const Tasks& tasks_;
  const Vectors& vectors_;
  mutable std::map<std::string, at::Tensor>
      found_;  // recomputed ones, asked for again with each batch of points
};

}  // namespace taugrid::study
