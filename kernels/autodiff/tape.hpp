// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// From a recorded forward pass to the gradients of single samples. Samples do not mix, so the gradient of a
// sum over samples holds each sample's own, and one backward pass a cotangent serves all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "kernels/autodiff/numbers.hpp"

namespace taugrid::autodiff {

/// One side of an outer product over t tokens: vectors [n, t, width], or unit vectors e_i given by their
/// places i, int64 [n, t].
struct Side {
  at::Tensor vectors;
  at::Tensor places;
};

/// The gradient of a matrix block of one use, Σ_tokens left ⊗ right, not multiplied out.
struct Factors {
  Side left, right;
};

/// Whether the use's gradient is such a sum; else it is a plain tensor.
bool is_factored(const Use& use);

/// The factors of one use, given the gradient dy of its output. Throws std::logic_error unless is_factored().
Factors factors(const Use& use, const at::Tensor& output_gradient);

/// The side of factors() that follows from the forward pass alone. Not of rows, of which there is none.
Side side_of_input(const Use& use);

/// The uses of each block, blocks in the order of their first use.
std::vector<std::vector<const Use*>> uses_by_block(const Tape& tape);

/// One use's per-sample gradient [n, block.count].
at::Tensor per_sample_gradient(const Use& use, const Block& block, const at::Tensor& output_gradient);

/// The same, a convolution's filters with their channels last: all that inner products need, and cheaper.
at::Tensor unordered_gradient(const Use& use, const Block& block, const at::Tensor& output_gradient);

/// unordered_gradient() of one use for several gradients of its output, a part of the block at a time: parts
/// stay in cache, and what follows from the input alone is made once.
class GradientParts {
 public:
  explicit GradientParts(const Use& use) : use_(use) {}
  /// Calls see() for parts [n, …], which together are the whole, in their order.
  void each(const Block& block, const at::Tensor& output_gradient,
            const std::function<void(const at::Tensor& part)>& see) const;

 private:
  const Use& use_;
  mutable at::Tensor prepared_;
};

/// Forward pass with a tape of parameter uses; the graph runs through layer outputs only.
struct Recording {
  Tape tape;
  at::Tensor output;
};
void record(const Layout& layout, const Function<Recorded>& f, const at::Tensor& theta, Recording& recording);

/// The tape of a forward pass alone, with no graph: what each use of a parameter takes in.
Tape record_uses(const Layout& layout, const Function<Recorded>& f, const at::Tensor& theta);

/// Gradients of ⟨output, cotangent⟩ with respect to each output on the tape; undefined where none flows.
/// `keep_graph`: for a further cotangent.
std::vector<at::Tensor> output_gradients(const Recording& recording, const at::Tensor& cotangent,
                                         bool keep_graph);

/// The same, each by its number on the tape as soon as it is known, last ones first: it is in cache still,
/// and the next ones take its memory. Those that nothing flows to do not come.
void each_output_gradient(const Recording& recording, const at::Tensor& cotangent, bool keep_graph,
                          const std::function<void(std::size_t output, const at::Tensor& gradient)>& see);

/// Per-sample gradients [n, P] of ⟨output, cotangent⟩, in one backward pass.
at::Tensor per_sample_gradients(const Layout& layout, const Recording& recording, const at::Tensor& cotangent,
                                bool keep_graph = false);

}  // namespace taugrid::autodiff
