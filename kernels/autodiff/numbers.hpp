// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The kinds of numbers that models are written in. A model is one template over them, so that all that is
// measured of it comes from one definition of f(θ, x):
//   at::Tensor  the value f(θ, x); gradients and Hessian-vector products follow by reverse mode
//   Dual        the value and the tangent J(x)τ, the derivative along τ (forward mode)
//   Recorded    the value, and what per-sample gradients and the NTK need of each use of a parameter
//   Counted     no numbers at all: shapes alone, of which flops and memory are counted
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace taugrid::autodiff {

/// value + ε·tangent. An undefined tangent is zero. Tangents are never part of an autograd graph, values may
/// be: a linearised training step needs the graph of f(θ0, x) alone, for the transposed product Jᵀg.
struct Dual {
  at::Tensor value;
  at::Tensor tangent;
};

/// The tangent of a number, as zeros where it is undefined.
at::Tensor tangent_or_zeros(const Dual& x);

/// One use of a parameter block. The block's per-sample gradient follows from the gradient dy of the use's
/// output, see factors() in tape.hpp.
struct Use {
  enum class Form {
    product,      ///< y = x Wᵀ, W [out, in]:        Σ_tokens dy ⊗ x
    convolution,  ///< y = W ∗ x, x as patches:      Σ_places dy ⊗ x, patches [n, places, side², in]
    tiled,        ///< the same of 3×3 places, x itself [n, in, h, w], that can be taken by tiles
    depthwise,    ///< y_c = W_c ∗ x_c:              Σ_places dy_c x_c, for each place of the filter
    lookup,       ///< y = W[i], W [rows, width]:    Σ_tokens e_i ⊗ dy
    rows,         ///< y_c = ⟨x, W[i_c]⟩:            Σ_c e_{i_c} ⊗ dy_c x
    sum,          ///< y = … + b:                    Σ_tokens dy
    scale,        ///< y = x ⊙ w + …:                Σ_tokens dy ⊙ x
    channel_sum,  ///< as sum, for y [n, channels, h, w]
    channel_scale,
    whole,    ///< y = x + p[first …], p [places, d]: dy itself, zero at the places that are not used
    token,    ///< p is the first token:         dy's first row
    relative  ///< scores + W[i] by heads, W [rows, heads]: Σ over queries and keys e_i ⊗ dy
  };
  Form form;
  int block;
  at::Tensor input;    ///< x, where the form needs it
  at::Tensor places;   ///< i, int64: [n, tokens] of a lookup, [C] of rows, [queries, keys] of relative, or so
                       ///< for each sample
  std::size_t output;  ///< index into Tape::outputs
  std::int64_t first = 0;  ///< of whole: the first place that is used
  at::Tensor factor = {};  ///< of convolution and tiled: [out], times which dy counts; none: 1
};

struct Tape {
  std::vector<Use> uses;
  std::vector<at::Tensor> outputs;
};

/// A value on a tape; `block` ≥ 0 marks a parameter block.
struct Recorded {
  at::Tensor value;
  Tape* tape = nullptr;
  int block = -1;
};

/// What a pass over Counted numbers adds up: flops of matrix products, and numbers (not bytes) in memory.
/// Parameters are not counted, they are there anyway.
class Meter {
 public:
  /// Which computation is counted: what it keeps, and what it holds beside the values.
  enum class Pass {
    value,     ///< f(θ, x), nothing kept
    tangent,   ///< f(θ, x) and J(x)τ, nothing kept
    gradient,  ///< f(θ, x), kept for a backward pass
    linear,    ///< as gradient, with the tangent beside it
    recording  ///< as gradient, with the outputs on the tape
  };
  explicit Meter(Pass pass) : pass_(pass) {}
  bool recording() const { return pass_ == Pass::recording; }

  /// Multiplications and additions of all matrix products of the value.
  double flops() const { return flops_; }
  /// The flops of those products that have this block as a factor.
  double flops_of(std::size_t block) const { return block < by_block_.size() ? by_block_[block] : 0; }
  /// Numbers that stay for a backward pass.
  double kept() const { return kept_; }
  /// Numbers alive at once at most.
  double peak() const { return peak_; }
  /// The uses of matrix blocks, in their order: what an NTK multiplies of one sample with another.
  struct MatrixUse {
    int block;
    double tokens, out, in;  ///< of one sample's gradient Σ_tokens [out] ⊗ [in]; `in` of a lookup is 1
  };
  const std::vector<MatrixUse>& matrix_uses() const { return matrix_uses_; }

  // For the operations.
  struct Storage;
  std::shared_ptr<Storage> allocate(double numbers, bool constant = false);
  void multiply(double flops, int block = -1);
  void use_matrix(const MatrixUse& use) { matrix_uses_.push_back(use); }
  /// Marks storage that the backward pass finds again.
  void keep(const std::shared_ptr<Storage>& storage);
  void keep(double numbers);
  /// Marks storage that the tape holds, and for each logit in turn its gradient.
  void record(const std::shared_ptr<Storage>& storage);
  void record(double numbers);
  /// Counts numbers that live for one operation alone: beside the value, and beside the tangent where there
  /// is one.
  void pass(double beside_value, double beside_tangent = 0);

 private:
  bool keeps() const { return pass_ != Pass::value && pass_ != Pass::tangent; }
  bool tangents() const { return pass_ == Pass::tangent || pass_ == Pass::linear; }
  void hold(double numbers);

  Pass pass_;
  double flops_ = 0, kept_ = 0, live_ = 0, peak_ = 0;
  std::vector<double> by_block_;
  std::vector<MatrixUse> matrix_uses_;
};

/// A shape whose memory the meter watches for as long as it lives.
struct Counted {
  std::vector<std::int64_t> shape;
  std::shared_ptr<Meter::Storage> storage;  ///< none: a parameter, or nothing
  Meter* meter = nullptr;
  int block = -1;
  bool defined() const { return meter != nullptr; }
};

/// A function of θ given by its blocks, the data being bound.
template <class T>
using Function = std::function<T(const std::vector<T>&)>;

class Layout;

/// What one pass of `f` takes: a meter that has counted it.
Meter count(const Layout& layout, const Function<Counted>& f, Meter::Pass pass);

}  // namespace taugrid::autodiff
