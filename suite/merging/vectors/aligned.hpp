// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task vectors whose matrices are written in one basis of all tasks' columns, where methods on numbers find
// them aligned (KnOTS, Stoica et al. 2025, "Model merging with SVD to tie the KnOTS", section 4):
//
//   [Δ_1 … Δ_T] = U S [V_1 … V_T]ᵀ;  Δ_t [m, n] becomes S V_tᵀ = Uᵀ Δ_t [k, n], k the rank of all tasks
//   together; what a method makes of these is lifted by U.
//
// U are eigenvectors of Σ Δ_t Δ_tᵀ. Other tensors stay as they are, and those that no task changes are left
// out, so that shares are of what adapters adapt, as in the authors' code.
#pragma once

#include <string>
#include <vector>

#include "suite/merging/sink.hpp"
#include "suite/merging/task_vectors.hpp"

namespace taugrid::merging {

class AlignedVectors final : public TaskVectors {
 public:
  /// Visits all of `whole`, which outlives it, once. Tensors whose names have one of the parts `exclude`, and
  /// those without two dimensions, stay as they are. Of each other one U [m, k] is held, float32.
  AlignedVectors(const TaskVectors& whole, const std::vector<std::string>& exclude);

  std::size_t count() const override { return whole_.count(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }

  /// Puts what is made of aligned vectors, `tau` [length()], into the sink as what it is of the others.
  /// Returns how many of its numbers are not zero.
  std::int64_t lift(const at::Tensor& tau, const Sink& sink) const;

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override;
  /// Tensor i of these vectors, flat.
  std::vector<at::Tensor> tensor(std::size_t i, const std::vector<std::size_t>& which) const;

  const TaskVectors& whole_;
  std::vector<NamedTensor> tensors_;
  std::vector<at::Tensor> bases_;  ///< U of each tensor; not defined where it stays as it is
};

}  // namespace taugrid::merging
