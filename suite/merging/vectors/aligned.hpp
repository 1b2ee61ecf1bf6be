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

/// Whether a tensor is written in a basis: one with two dimensions whose name has none of the parts
/// `exclude`.
bool is_aligned(const NamedTensor& tensor, const std::vector<std::string>& exclude);

class AlignedVectors final : public TaskVectors {
 public:
  /// Visits all of `whole`, which outlives it, once. Tensors that are not is_aligned() stay as they are. Of
  /// each other one U [m, k] is held, float32. Throws InputError where one has too many rows for its Gram
  /// matrix.
  AlignedVectors(const TaskVectors& whole, const std::vector<std::string>& exclude);

  std::size_t count() const override { return whole_.count(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }

  /// Puts what is made of aligned vectors, `tau` [length()], into the sink as what it is of the others.
  /// Returns how many of its numbers are not zero.
  std::int64_t lift(const at::Tensor& tau, const Sink& sink) const;

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override;
  /// Calls see(begin, numbers) for all of a part of tensor i of these vectors, in order.
  void visit_tensor(const std::vector<std::size_t>& which, std::size_t i, Range part,
                    const Visitor& see) const;

  const TaskVectors& whole_;
  std::vector<NamedTensor> tensors_;
  std::vector<at::Tensor> bases_;  ///< U of each tensor; not defined where it stays as it is
};

}  // namespace taugrid::merging
