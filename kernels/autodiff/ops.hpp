// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The operations that models are written in, each for three kinds of numbers. A model is one template over
// them, so forward, JVP and per-sample gradients come from one definition of f(θ, x):
//   at::Tensor  the value f(θ, x); gradients and Hessian-vector products by reverse mode
//   Dual        the value and the tangent J(x)τ, the derivative along τ (forward mode)
//   Recorded    the value, and each layer's input and output kept for per-sample gradients
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace taugrid::autodiff {

/// value + ε·tangent. An undefined tangent is zero. Tangents are never part of an autograd graph, values may
/// be: a linearised training step needs the graph of f(θ0, x) alone, for the transposed product Jᵀg.
struct Dual {
  at::Tensor value;
  at::Tensor tangent;
};

/// One use of a parameter block: with the gradient dy of its output, its per-sample gradient follows.
struct Use {
  enum class Form {
    weight,  ///< y = x Wᵀ:      Σ_tokens dyᵀ x
    bias,    ///< y = … + b:     Σ_tokens dy
    scale,   ///< y = x ⊙ w + …: Σ_tokens dy ⊙ x
    whole,   ///< y = x + p:     dy itself, no sum over tokens
    token    ///< p is the first token: dy's first row
  };
  Form form;
  int block;
  at::Tensor input;    ///< x, [n, tokens, in], where the form needs it
  std::size_t output;  ///< index into Tape::outputs
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

enum class Activation { quick_gelu, gelu };

// Shapes: x [n, tokens, d] or [n, d]; W [out, in]; b [out] or undefined.
#define TAUGRID_DECLARE_OPS(T)                                                              \
  /** x Wᵀ + b */                                                                         \
  T linear(const T& x, const T& weight, const T& bias);                                     \
  T linear(const T& x, const T& weight);                                                    \
  /** (x − mean)/√(var + eps) ⊙ w + b over the last dimension */                      \
  T layer_norm(const T& x, const T& weight, const T& bias, double eps);                     \
  T activate(const T& x, Activation activation);                                            \
  /** softmax(q kᵀ/√d) v by heads; qkv [n, tokens, 3·heads·d] in the order q, k, v */ \
  T attention(const T& qkv, std::int64_t heads);                                            \
  T add(const T& x, const T& y);                                                            \
  /** [n, tokens, d] → [n, tokens + 1, d] with `token` [d] first */                       \
  T prepend_token(const T& token, const T& x);                                              \
  /** x [n, tokens, d] + position [tokens, d] */                                            \
  T add_position(const T& x, const T& position);                                            \
  /** [n, tokens, d] → its first token [n, d] */                                          \
  T first_token(const T& x);                                                                \
  /** rows of z [n, d] at unit length */                                                    \
  T normalise_rows(const T& z);                                                             \
  /** z [n, d] · headᵀ · scale, the head [classes, d] being constant */                 \
  T cosine_logits(const T& z, const at::Tensor& head, double scale);                        \
  /** a constant input, such as pixels */                                                   \
  T constant(const at::Tensor& x, const T& like);

TAUGRID_DECLARE_OPS(at::Tensor)
TAUGRID_DECLARE_OPS(Dual)
TAUGRID_DECLARE_OPS(Recorded)
#undef TAUGRID_DECLARE_OPS

}  // namespace taugrid::autodiff
