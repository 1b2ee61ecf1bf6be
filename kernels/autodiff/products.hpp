// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Derivative products of functions of one flat vector θ [P]: J(x)τ, ∇L, Hv, Jᵀg.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "kernels/autodiff/layout.hpp"
#include "kernels/autodiff/numbers.hpp"

namespace taugrid::autodiff {

/// The blocks of θ + ετ.
std::vector<Dual> duals(const std::vector<at::Tensor>& blocks, const std::vector<at::Tensor>& tau_blocks);

/// f(θ, x) and J(x)τ at θ, in one forward pass over dual numbers. θ, τ [P]; no graph is kept.
Dual jvp(const Layout& layout, const Function<Dual>& f, const at::Tensor& theta, const at::Tensor& tau);

/// Views of θ by block as leaves of an autograd graph; they share θ's memory. `trained` (a flag a block, or
/// empty for all) says which take part in the graph.
std::vector<at::Tensor> leaves(const Layout& layout, const at::Tensor& theta,
                               const std::vector<bool>& trained = {});

/// Views of the trained blocks of v, which holds these alone, end to end; for the others an undefined tensor.
/// `blocks` are of leaves(), and give shapes.
std::vector<at::Tensor> trained_views(const std::vector<at::Tensor>& blocks, const at::Tensor& v);

/// The numbers of v [P] in the trained blocks, end to end; v itself where all are (`trained` is empty).
at::Tensor trained_part(const Layout& layout, const std::vector<bool>& trained, const at::Tensor& v);

/// Stretches of a flat gradient, handed over as the backward pass completes them, so that a sum over ranks
/// runs beside the rest of it. Always from the end of the vector to its beginning, as backward passes mostly
/// go, whatever the order they are completed in: every rank hands over the same stretches in the same order.
class Buckets {
 public:
  /// Cuts the trained blocks, end to end, into stretches of whole blocks, of at least `numbers` each but the
  /// last one. `ready` is called where the backward pass runs: on a thread of autograd's for a device.
  Buckets(const Layout& layout, const std::vector<bool>& trained, std::int64_t numbers,
          std::function<void(const at::Tensor& stretch)> ready);

  /// Hands over the whole gradient, where it is there already.
  void all_ready(const at::Tensor& flat) const;
  std::size_t size() const { return begin_.size(); }

 private:
  friend class BucketedGradient;
  void hand_over(std::size_t b, const at::Tensor& flat) const;
  std::vector<std::int64_t> begin_, end_;  // in the flat gradient, from the end
  std::function<void(const at::Tensor&)> ready_;
};

/// Jᵀg: the gradient of ⟨output, cotangent⟩ with respect to the leaves that are trained, end to end, in
/// numbers of `type`: [P] where all are. Frees the graph.
at::Tensor pull_back(const std::vector<at::Tensor>& blocks, const at::Tensor& output,
                     const at::Tensor& cotangent, at::ScalarType type, const Buckets* buckets = nullptr);

struct ValueAndGradient {
  double value;
  at::Tensor gradient;  ///< of the trained blocks, end to end
};

/// L(θ) and ∇L(θ) of a scalar function.
ValueAndGradient gradient(const Layout& layout, const Function<at::Tensor>& loss, const at::Tensor& theta,
                          const std::vector<bool>& trained = {});

/// v ↦ H v, H = ∇²L(θ) in the trained blocks, end to end (`trained`: a flag a block, or empty for all). The
/// graph of ∇L is built once and kept, so a product costs the derivative of ⟨∇L, v⟩ alone. Memory: the graph
/// of one forward and backward pass over the bound data, and one product, whose memory the next one takes.
class HessianVectorProduct {
 public:
  HessianVectorProduct(const Layout& layout, const Function<at::Tensor>& loss, const at::Tensor& theta,
                       const std::vector<bool>& trained = {});
  /// [n] → [n], n being the length of the trained blocks; it holds until the next product.
  at::Tensor operator()(const at::Tensor& v) const;
  double loss() const { return loss_; }
  /// ∇L(θ) [n].
  at::Tensor gradient() const;

 private:
  std::vector<at::Tensor> blocks_;
  std::vector<at::Tensor> gradients_;
  mutable at::Tensor product_;
  double loss_ = 0;
};

/// The linearised model f(x; θ0) + J(x)τ (paper 1, eq. 3), as a value f0 with the graph at θ0 and a tangent.
/// J being constant, the gradient of any loss of it with respect to τ is Jᵀg: pull_back(f0, g).
Dual linearised(const std::vector<at::Tensor>& blocks, const std::vector<at::Tensor>& tau_blocks,
                const Function<Dual>& f);

}  // namespace taugrid::autodiff
