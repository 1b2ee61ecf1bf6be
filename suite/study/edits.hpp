// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// An edit makes a model of θ0 and task vectors: θ0 + Σ αₜτₜ (paper 1, section 2). Buffers follow by the rule of
// `model.buffers`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "suite/study/vectors.hpp"

namespace taugrid::study {

class Edits {
 public:
  /// All arguments outlive this object.
  Edits(const Settings& settings, const Model& model, const Vectors& vectors)
      : settings_(settings), model_(model), vectors_(vectors) {}

  /// K models at once, for K rows of coefficients `alpha` [K, |tasks|] of the regime's vectors: `see(k, state)`
  /// in order. As many are held together as at_once() says, so that each vector is read once for them.
  void each(const std::string& regime, const std::vector<std::size_t>& tasks, const at::Tensor& alpha,
            const std::function<void(std::int64_t, const models::State&)>& see) const;
  std::int64_t at_once() const;

  /// θ0 + α Σ τ over these tasks.
  models::State sum(const std::string& regime, const std::vector<std::size_t>& tasks, double alpha) const;

  /// θ0 + ατ, τ [P] merged of these tasks' vectors. Of buffers, which methods say nothing of, it has α times the mean.
  models::State along(const std::string& regime, const std::vector<std::size_t>& tasks, const at::Tensor& tau,
                      double alpha) const;

  /// θ0 + τ with the buffers that τ was trained with: a task's own model.
  models::State own(const std::string& regime, std::size_t t) const;

 private:
  at::Tensor buffers(const std::string& regime, const std::vector<std::size_t>& tasks,
                     const at::Tensor& alpha) const;
  const Settings& settings_;
  const Model& model_;
  const Vectors& vectors_;
};

}  // namespace taugrid::study
