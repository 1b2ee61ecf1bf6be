// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Methods whose τ is, tensor by tensor, a sum of the vectors' tensors whose factors follow from the tensors'
// inner products alone: τ = Σ f_t τ_t, f = f(G), G[s,t] = ⟨τ_s, τ_t⟩.
#pragma once

#include <vector>

#include "suite/merging/table.hpp"

namespace taugrid::merging {

class CombinedByTensor : public VectorMethod {
 public:
  MergeWork work(const std::vector<NamedTensor>&, std::size_t) const override { return {.passes = 2}; }

 protected:
  /// Whether θ0's tensor stands behind the vectors' in G, and has a factor.
  virtual bool sees_start() const { return false; }
  /// Whether each product f_t τ_t is rounded before it is added, as mergekit has it.
  virtual bool rounds_products() const { return false; }
  /// f [n], float64, of G [n,n], float64, both on the host.
  virtual at::Tensor factors(const at::Tensor& gram) const = 0;

  std::int64_t run(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                   const Team& team) const final;
};

}  // namespace taugrid::merging
