// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The operations that models are written in, each for all kinds of numbers (numbers.hpp). Each family has a
// file of its own in ops/, where the value, the tangent, the use of a parameter and the cost stand together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/autodiff/numbers.hpp"
#include "kernels/autodiff/packing.hpp"

namespace taugrid::autodiff {

/// gelu_tanh: GELU by its approximation with tanh, gelu_new of Hugging Face; silu: x·σ(x).
enum class Activation { quick_gelu, gelu, gelu_tanh, relu, silu };

/// Statistics of the batch itself, which batch norm takes in training instead of stored ones. Samples mix
/// then, so this is for plain values alone.
struct BatchStatistics {
  /// Sums a float64 tensor over all ranks that share the batch; empty where one rank has it all. Each rank
  /// calls it equally often, also one without a sample.
  std::function<void(at::Tensor&)> sum_over_ranks;
  /// Mean and unbiased variance [channels] of each batch norm, in the order in which they ran.
  std::vector<at::Tensor> moments;
};

/// Sequences of tokens, each behind its own beginning, as a tree over places that have a softmax each: edge e
/// is token[e] behind the place node[e], int64 [E], and the edges of sequence c are those with member [E, C]
/// 1, others having 0.
struct Paths {
  at::Tensor node, token, member;
  std::int64_t nodes = 0;  ///< places
};

/// The score of a choice that is not there: far below any log-probability, and finite, so that sums and
/// differences of models' outputs stay numbers.
constexpr double no_choice = -1e9;

/// Heads of a decoder: neighbouring `queries`/`keys` heads of queries share one of keys and values
/// (grouped-query attention, Ainslie et al., 2023).
struct GroupedHeads {
  std::int64_t queries, keys;  ///< how many heads; queries is a multiple of keys
  double scale;                ///< of the scores q kᵀ
  double cap = 0;              ///< above 0: scores become cap·tanh(scores/cap), before the mask (Gemma 2)
};

/// Angles of rotary positions (Su et al., 2021), by place and pair of numbers: cosines and sines [places,
/// d/2], both multiplied by the factor that a scaling may have.
struct Rotation {
  at::Tensor cos, sin;
  bool by_row = false;  ///< there is a place for each row of what is turned, in their order, packed or not
};

// Shapes: x [n, tokens, d] or [n, d]; W [out, in]; b [out] or undefined; pictures [n, channels, h, w].
#define TAUGRID_DECLARE_OPS(T)                                                                              \
  /** x Wᵀ + b */                                                                                         \
  T linear(const T& x, const T& weight, const T& bias);                                                     \
  T linear(const T& x, const T& weight);                                                                    \
  /** Rows of a table [rows, d] by their places int64 [n, tokens]: [n, tokens, d] */                        \
  T lookup(const T& table, const at::Tensor& places);                                                       \
  /** W ∗ x of pictures, W [out, in, side, side] as a block [out, in·side·side] */                      \
  T convolve(const T& x, const T& weight, std::int64_t side, std::int64_t stride, std::int64_t padding);    \
  /** the same + b by channels, b [out] */                                                                  \
  T convolve(const T& x, const T& weight, const T& bias, std::int64_t side, std::int64_t stride,            \
             std::int64_t padding);                                                                         \
  /** Each channel of pictures by a filter of its own, + b: W [channels, side·side], side odd,             \
   *  b [channels]; with zeros around, so that the places stay. Fast with channels last in memory */        \
  T convolve_depthwise(const T& x, const T& weight, const T& bias);                                         \
  /** (x − mean)/√(var + eps) ⊙ w + b over the last dimension */                                      \
  T layer_norm(const T& x, const T& weight, const T& bias, double eps);                                     \
  /** (x − mean)/√(var + eps) ⊙ w + b by channels of pictures, by stored mean and var [channels], or  \
   *  by those of the batch: std::logic_error for numbers other than plain values */                        \
  T batch_norm(const T& x, const T& weight, const T& bias, const at::Tensor& mean,                          \
               const at::Tensor& variance, double eps, BatchStatistics* batch);                             \
  /** x/√(mean of squares + eps) ⊙ w over the last dimension */                                         \
  T rms_norm(const T& x, const T& weight, double eps);                                                      \
  T activate(const T& x, Activation activation);                                                            \
  /** softmax(q kᵀ/√d + mask) v by heads; qkv [n, tokens, 3·heads·d] in the order q, k, v; mask       \
   *  [n, tokens], added to each key's scores (0, or −∞ for a token that is none), or undefined.        \
   *  With a packing (packing.hpp) qkv and what comes of it are packed */                                   \
  T attention(const T& qkv, std::int64_t heads, const at::Tensor& mask, const Packing& packing = {});       \
  /** softmax(q kᵀ + rows of the table + mask) v by heads; qkv and mask as of attention(), the table      \
   *  [rows, heads] read by places int64 [tokens, tokens] or [n, tokens, tokens], of each query and key;    \
   *  the mask may be [n, tokens, tokens] */                                                                \
  T relative_attention(const T& qkv, const T& table, const at::Tensor& places, std::int64_t heads,          \
                       const at::Tensor& mask, const Packing& packing = {});                                \
  /** softmax(q kᵀ + mask) v by heads; q [n, queries, heads·d], kv [n, tokens, 2·heads·d] in the order \
   *  k, v, and their mask as of attention(); with a packing kv alone is packed */                          \
  T cross_attention(const T& q, const T& kv, std::int64_t heads, const at::Tensor& mask,                    \
                    const Packing& packing = {});                                                           \
  /** softmax(cap(q kᵀ·scale) + mask) v by grouped heads; q [n, queries, heads·d], kv [n, tokens,       \
   *  2·heads·d] in the order k, v; the mask [queries, tokens] or [n, queries, tokens] is added to the    \
   *  scores. With a packing kv is packed, and so is q where it has two dimensions */                       \
  T grouped_attention(const T& q, const T& kv, const GroupedHeads& heads, const at::Tensor& mask,           \
                      const Packing& packing = {});                                                         \
  /** x [n, tokens, heads·d], the first `heads` of whose heads are turned: the numbers i and i + d/2 of    \
   *  each, a pair, by the angle of the token's place, which counts from 0 (as Hugging Face pairs them). Of \
   *  a rotation with n places for x [n, 1, heads·d] each sample has its own */                            \
  T rotate_heads(const T& x, const Rotation& rotation, std::int64_t heads, const Packing& packing = {});    \
  /** x [n, tokens, heads·d], of whose heads the first `heads` become rms_norm(head, w, eps), w [d] */     \
  T norm_heads(const T& x, const T& weight, std::int64_t heads, double eps);                                \
  /** φ(a) ⊙ b of the halves a, b of x [n, tokens, 2·d]; φ is silu or gelu_tanh */                     \
  T gated(const T& x, Activation activation);                                                               \
  /** cap·tanh(x/cap) */                                                                                   \
  T soft_cap(const T& x, double cap);                                                                       \
  /** A parameter and a constant, which stands for the parameter where it is used: 1 + w of a norm, say */  \
  T plus(const T& parameter, double constant);                                                              \
  T add(const T& x, const T& y);                                                                            \
  /** x ⊙ y */                                                                                            \
  T multiply(const T& x, const T& y);                                                                       \
  /** [n, tokens, d] → [n, tokens + 1, d] with `token` [d] first */                                       \
  T prepend_token(const T& token, const T& x);                                                              \
  /** x [n, tokens, d] + the rows of position [at least first + tokens, d] from `first` on */               \
  T add_position(const T& x, const T& position, std::int64_t first = 0);                                    \
  /** [n, tokens, d] → its first token [n, d] */                                                          \
  T first_token(const T& x);                                                                                \
  /** [n, tokens, d] → its tokens first … first + count: [n, count, d] */                               \
  T some_tokens(const T& x, std::int64_t first, std::int64_t count);                                        \
  /** [n, d] → [n, 1, d] */                                                                               \
  T as_tokens(const T& x);                                                                                  \
  /** [n, tokens, d] → [n, tokens·d] */                                                                  \
  T flatten_tokens(const T& x);                                                                             \
  /** the tokens of x [n, t, d], behind them those of y [n, u, d] */                                        \
  T join_tokens(const T& x, const T& y);                                                                    \
  /** [n, tokens, d] → of each sequence the token at its place, int64 [n]: [n, d] */                      \
  T token_at(const T& x, const at::Tensor& places);                                                         \
  /** Σ over tokens of weights [n, tokens] times x [n, tokens, d]: [n, d] */                               \
  T weighted_tokens(const T& x, const at::Tensor& weights);                                                 \
  /** x ⊙ w, w [d] */                                                                                     \
  T scale(const T& x, const T& weight);                                                                     \
  T scale(const T& x, double factor);                                                                       \
  /** Pictures [n, channels, h, w] → [n, h, w, channels], whose channels linear maps and norms act on,    \
   *  and back: views of the same numbers */                                                                \
  T channels_last(const T& x);                                                                              \
  T channels_first(const T& x);                                                                             \
  /** Mean over the places of pictures: [n, channels] */                                                    \
  T mean_places(const T& x);                                                                                \
  /** The largest number of each window of side × side places, by channels; what lies outside counts       \
   *  as −∞ */                                                                                          \
  T max_pool(const T& x, std::int64_t side, std::int64_t stride, std::int64_t padding);                     \
  /** Every stride-th row and column of pictures, with zeros as further channels behind */                  \
  T thin_out(const T& x, std::int64_t stride, std::int64_t channels);                                       \
  /** rows of z [n, d] at unit length */                                                                    \
  T normalise_rows(const T& z);                                                                             \
  /** z [n, d] · headᵀ · scale, the head [classes, d] being constant */                                 \
  T cosine_logits(const T& z, const at::Tensor& head, double scale);                                        \
  /** z [n, d] · headᵀ + bias, both constant */                                                          \
  T affine_logits(const T& z, const at::Tensor& head, const at::Tensor& bias);                              \
  /** z [n, d] · Eᵀ for the rows `words` [C] of a table E [rows, d], a parameter: [n, C] */              \
  T word_logits(const T& z, const T& table, const at::Tensor& words);                                       \
  /** the same + b of these words, b [rows, 1] a parameter too */                                           \
  T word_logits(const T& z, const T& table, const T& bias, const at::Tensor& words);                        \
  /** log-probabilities of whole sequences [n, C], Σ over their edges of log softmax: of the logits x      \
   *  [n, places·rows], or, with a constant head [rows, d], of states x [n, places·d] times headᵀ */    \
  T sequence_scores(const T& x, const at::Tensor& head, const Paths& paths);                                \
  /** the same of each sample's own choices, [n, choices]: `scored` int64 [n, places, 2] has for which      \
   *  token of which choice each place is read, -1 for none; x [n, places, rows], or, with a head,          \
   *  [n, places, d]. A choice of which no token is scored has no_choice */                                 \
  T choice_scores(const T& x, const at::Tensor& head, const at::Tensor& scored, std::int64_t choices);      \
  /** a constant input, such as pixels */                                                                   \
  T constant(const at::Tensor& x, const T& like);                                                           \
  /** type and device of a number's value, for constants beside it */                                       \
  at::TensorOptions options_of(const T& x);

TAUGRID_DECLARE_OPS(at::Tensor)
TAUGRID_DECLARE_OPS(Dual)
TAUGRID_DECLARE_OPS(Recorded)
TAUGRID_DECLARE_OPS(Counted)
#undef TAUGRID_DECLARE_OPS

/// Batch norm by channels, as batch_norm() takes it.
template <class T>
struct BatchNorm {
  const T &weight, &bias;
  const at::Tensor &mean, &variance;
  double eps;
  BatchStatistics* batch;
};

/// Batch norm of W ∗ x, or of W ∗ max(x, 0) where x is `rectified` before. Recorded, all of it is one step: a
/// sample's gradient passes from the norm's output to x by filters that have the norm's factors in them.
template <class T>
T convolve_normed(const T& x, bool rectified, const T& filters, std::int64_t side, std::int64_t stride,
                  std::int64_t padding, const BatchNorm<T>& norm) {
  return batch_norm(convolve(rectified ? activate(x, Activation::relu) : x, filters, side, stride, padding),
                    norm.weight, norm.bias, norm.mean, norm.variance, norm.eps, norm.batch);
}
template <>
Recorded convolve_normed(const Recorded& x, bool rectified, const Recorded& filters, std::int64_t side,
                         std::int64_t stride, std::int64_t padding, const BatchNorm<Recorded>& norm);
template <>
Counted convolve_normed(const Counted& x, bool rectified, const Counted& filters, std::int64_t side,
                        std::int64_t stride, std::int64_t padding, const BatchNorm<Counted>& norm);

}  // namespace taugrid::autodiff
