// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Methods whose τ is, tensor by tensor, a sum of the vectors' tensors whose factors follow from the tensors'
// inner products alone: τ = Σ f_t τ_t, f = f(G), G[s,t] = ⟨τ_s, τ_t⟩; or, of the models' tensors θ_t = θ0 +
// τ_t, θ0 + τ = Σ f_t θ_t, G[s,t] = ⟨θ_s, θ_t⟩.
#pragma once

#include <vector>

#include "suite/merging/table.hpp"

namespace taugrid::merging {

class CombinedByTensor : public VectorMethod {
 public:
  bool needs_start() const final { return !of_models(); }
  MergeWork work(const std::vector<NamedTensor>&, std::size_t) const override { return {.passes = 2}; }

 protected:
  /// Whether tensors are the models' own.
  virtual bool of_models() const { return false; }
  /// Whether each product f_t τ_t is rounded before it is added, as mergekit has it.
  virtual bool rounds_products() const { return false; }
  /// f [T], float64, of G [T,T], float64, both on the host, and the vectors' weights.
  virtual at::Tensor factors(const at::Tensor& gram, const std::vector<double>& weights) const = 0;

  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                   const Team& team) const final;

 private:
  /// The same of the models' tensors; `gram` and factors are those of the vectors' and, behind them, θ0's.
  at::Tensor factors_of_models(const at::Tensor& gram, const std::vector<double>& weights) const;
};

/// Reads whether tensors are the models' own.
bool read_of_models(config::Section& parameters, const config::Meaning& meaning, bool fallback);

}  // namespace taugrid::merging
