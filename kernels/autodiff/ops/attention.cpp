// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Softmax attention. Softmax has a symmetric Jacobian, so its tangent is ATen's fused backward kernel applied
// to the tangent of the scores.
#include <ATen/ATen.h>

#include "kernels/autodiff/detail/heads.hpp"
#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

struct Heads {
  at::Tensor q, k, v;  // [n·heads, queries or keys, d], contiguous
  std::int64_t samples;
  double scale;  // of the scores
};

Heads split_heads(const at::Tensor& qkv, std::int64_t heads, bool scaled, const Packing& packing) {
  const auto parts = detail::split_heads(qkv, 3, heads, packing);
  const auto d = static_cast<double>(parts[0].size(2));
  return {parts[0], parts[1], parts[2], parts[0].size(0) / heads, scaled ? 1.0 / std::sqrt(d) : 1.0};
}

/// scores [n·heads, queries, keys] + mask, of each sample's keys [n, keys] or of each query's [n, queries,
/// keys], or where it is undefined the scores.
at::Tensor masked(const at::Tensor& scores, const at::Tensor& mask, std::int64_t samples) {
  if (!mask.defined()) return scores;
  const auto queries = scores.size(1), keys = scores.size(2);
  const auto each =
      mask.dim() == 2 ? mask.view({samples, 1, 1, keys}) : mask.view({samples, 1, queries, keys});
  return scores.view({samples, -1, queries, keys}).add(each).view(scores.sizes());
}

/// softmax(q kᵀ · scale + mask) [n·heads, queries, keys]
at::Tensor weights_of(const Heads& p, const at::Tensor& mask) {
  auto scores = at::bmm(p.q, p.k.transpose(1, 2));
  if (p.scale != 1) scores.mul_(p.scale);
  return at::softmax(masked(scores, mask, p.samples), -1);
}

/// The tangent of weights · v by heads, of scores' and values' tangents, either undefined where it is zero.
at::Tensor tangent_by_heads(const at::Tensor& weights, const at::Tensor& d_scores, const at::Tensor& v,
                            const at::Tensor& dv) {
  at::Tensor t;
  if (d_scores.defined())
    t = at::bmm(at::_softmax_backward_data(d_scores, weights, -1, d_scores.scalar_type()), v);
  if (dv.defined()) t = t.defined() ? t.baddbmm_(weights, dv) : at::bmm(weights, dv);
  return t;
}

/// The same, joined.
at::Tensor tangent_of_mean(const at::Tensor& weights, const at::Tensor& d_scores, const at::Tensor& v,
                           const at::Tensor& dv, std::int64_t heads, const Packing& packing) {
  const auto t = tangent_by_heads(weights, d_scores, v, dv);
  return t.defined() ? detail::join_heads(t, heads, packing) : t;
}

/// What `queries` queries a sample and `keys` keys take, besides q, k and v, `copy` numbers.
Counted counted_attention(const Counted& q, std::int64_t keys, std::int64_t width, std::int64_t heads,
                          double copy) {
  const auto n = q.shape[0], queries = q.shape[1];
  const double scores = static_cast<double>(n * heads * queries * keys),
               out = static_cast<double>(n * queries * width);
  auto& meter = *q.meter;
  meter.multiply(4 * static_cast<double>(n * queries * keys * width));  // q kᵀ, and weights times v
  meter.keep(copy + scores);
  // Alive together: heads, scores and weights, then heads, weights and the outputs by heads.
  const double held = copy + scores + std::max(scores, out);
  meter.pass(held, held);
  return detail::counted(q.meter, {n, queries, width});
}

}  // namespace

at::Tensor attention(const at::Tensor& qkv, std::int64_t heads, const at::Tensor& mask,
                     const Packing& packing) {
  const auto p = split_heads(qkv, heads, true, packing);
  return detail::join_heads(at::bmm(weights_of(p, mask), p.v), heads, packing);
}

Dual attention(const Dual& qkv, std::int64_t heads, const at::Tensor& mask, const Packing& packing) {
  const auto p = split_heads(qkv.value, heads, true, packing);
  const auto weights = weights_of(p, mask);
  Dual y{detail::join_heads(at::bmm(weights, p.v), heads, packing), {}};
  y.tangent = detail::tangent_of([&] {
    if (!qkv.tangent.defined()) return at::Tensor();
    const auto d = split_heads(qkv.tangent, heads, true, packing);
    const auto d_scores = at::bmm(d.q, p.k.transpose(1, 2)).baddbmm_(p.q, d.k.transpose(1, 2)).mul_(p.scale);
    return tangent_of_mean(weights, d_scores, p.v, d.v, heads, packing);
  });
  return y;
}

Recorded attention(const Recorded& qkv, std::int64_t heads, const at::Tensor& mask, const Packing&) {
  return {attention(qkv.value, heads, mask), qkv.tape, -1};
}

Counted attention(const Counted& qkv, std::int64_t heads, const at::Tensor&, const Packing&) {
  return counted_attention(qkv, qkv.shape[1], qkv.shape[2] / 3, heads, detail::numbers(qkv));
}

// softmax(q kᵀ + table[places] + mask) v

namespace {

/// Rows of a table [rows, heads] by places [queries, keys] or [n, queries, keys]: [1 or n, heads, queries,
/// keys]
at::Tensor by_places(const at::Tensor& table, const at::Tensor& places) {
  const auto each = places.dim() == 2 ? places.unsqueeze(0) : places;
  return at::embedding(table, each).permute({0, 3, 1, 2});
}

/// q kᵀ + table[places] [n, heads, queries, keys]
at::Tensor relative_scores(const Heads& p, const at::Tensor& table, const at::Tensor& places) {
  const auto tokens = p.q.size(1);
  return at::bmm(p.q, p.k.transpose(1, 2)).view({p.samples, -1, tokens, tokens}) + by_places(table, places);
}

at::Tensor weights_of_scores(const at::Tensor& scores, const at::Tensor& mask) {
  return at::softmax(masked(scores.flatten(0, 1), mask, scores.size(0)), -1);
}

}  // namespace

at::Tensor relative_attention(const at::Tensor& qkv, const at::Tensor& table, const at::Tensor& places,
                              std::int64_t heads, const at::Tensor& mask, const Packing& packing) {
  const auto p = split_heads(qkv, heads, false, packing);
  const auto weights = weights_of_scores(relative_scores(p, table, places), mask);
  return detail::join_heads(at::bmm(weights, p.v), heads, packing);
}

Dual relative_attention(const Dual& qkv, const Dual& table, const at::Tensor& places, std::int64_t heads,
                        const at::Tensor& mask, const Packing& packing) {
  const auto p = split_heads(qkv.value, heads, false, packing);
  const auto weights = weights_of_scores(relative_scores(p, table.value, places), mask);
  Dual y{detail::join_heads(at::bmm(weights, p.v), heads, packing), {}};
  y.tangent = detail::tangent_of([&] {
    at::Tensor d_scores, dv;
    if (qkv.tangent.defined()) {
      const auto d = split_heads(qkv.tangent, heads, false, packing);
      d_scores = at::bmm(d.q, p.k.transpose(1, 2)).baddbmm_(p.q, d.k.transpose(1, 2));
      dv = d.v;
    }
    if (table.tangent.defined()) {
      const auto of_table =
          by_places(table.tangent, places).expand({p.samples, -1, -1, -1}).reshape(weights.sizes());
      d_scores = detail::sum_of(d_scores, of_table);
    }
    return tangent_of_mean(weights, d_scores, p.v, dv, heads, packing);
  });
  return y;
}

Recorded relative_attention(const Recorded& qkv, const Recorded& table, const at::Tensor& places,
                            std::int64_t heads, const at::Tensor& mask, const Packing&) {
  const auto p = split_heads(qkv.value, heads, false, {});
  auto scores = relative_scores(p, table.value, places);
  qkv.tape->uses.push_back({Use::Form::relative, table.block, {}, places, detail::keep(*qkv.tape, scores)});
  return {detail::join_heads(at::bmm(weights_of_scores(scores, mask), p.v), heads, {}), qkv.tape, -1};
}

Counted relative_attention(const Counted& qkv, const Counted&, const at::Tensor&, std::int64_t heads,
                           const at::Tensor&, const Packing&) {
  const auto tokens = qkv.shape[1];
  qkv.meter->record(2 * static_cast<double>(qkv.shape[0] * heads * tokens * tokens));  // scores, and gradient
  return counted_attention(qkv, tokens, qkv.shape[2] / 3, heads, detail::numbers(qkv));
}

// softmax(q kᵀ + mask) v

namespace {

Heads crossed_heads(const at::Tensor& q, const at::Tensor& kv, std::int64_t heads, const Packing& packing) {
  const auto parts = detail::split_heads(kv, 2, heads, packing);
  return {detail::split_heads(q, 1, heads, {})[0], parts[0], parts[1], q.size(0), 1.0};
}

}  // namespace

at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& kv, std::int64_t heads,
                           const at::Tensor& mask, const Packing& packing) {
  const auto p = crossed_heads(q, kv, heads, packing);
  return detail::join_heads(at::bmm(weights_of(p, mask), p.v), heads, {});
}

Dual cross_attention(const Dual& q, const Dual& kv, std::int64_t heads, const at::Tensor& mask,
                     const Packing& packing) {
  const auto p = crossed_heads(q.value, kv.value, heads, packing);
  const auto weights = weights_of(p, mask);
  Dual y{detail::join_heads(at::bmm(weights, p.v), heads, {}), {}};
  y.tangent = detail::tangent_of([&] {
    at::Tensor d_scores, dv;
    if (q.tangent.defined())
      d_scores = at::bmm(detail::split_heads(q.tangent, 1, heads, {})[0], p.k.transpose(1, 2));
    if (kv.tangent.defined()) {
      const auto parts = detail::split_heads(kv.tangent, 2, heads, packing);
      d_scores = d_scores.defined() ? d_scores.baddbmm_(p.q, parts[0].transpose(1, 2))
                                    : at::bmm(p.q, parts[0].transpose(1, 2));
      dv = parts[1];
    }
    return tangent_of_mean(weights, d_scores, p.v, dv, heads, {});
  });
  return y;
}

Recorded cross_attention(const Recorded& q, const Recorded& kv, std::int64_t heads, const at::Tensor& mask,
                         const Packing&) {
  return {cross_attention(q.value, kv.value, heads, mask), q.tape, -1};
}

Counted cross_attention(const Counted& q, const Counted& kv, std::int64_t heads, const at::Tensor&,
                        const Packing&) {
  return counted_attention(q, kv.shape[1], q.shape[2], heads, detail::numbers(q) + detail::numbers(kv));
}

// softmax(cap(q kᵀ·scale) + mask) v by grouped heads. The heads of queries that share one of keys are
// neighbours, so that they are further queries of it: one product a head of keys.

namespace {

struct Groups {
  at::Tensor q, k, v;  // [n·keys' heads, heads of a group × queries, d]; [n·keys' heads, tokens, d]
  Packing packing;     // of the queries
  std::int64_t queries;
};

Packing packing_of_queries(const at::Tensor& q, const Packing& packing) {
  return q.dim() == 2 ? packing : Packing{};
}

at::Tensor grouped_queries(const at::Tensor& q, const GroupedHeads& heads, const Packing& packing) {
  const auto each = detail::split_heads(q, 1, heads.queries, packing_of_queries(q, packing))[0];
  const auto share = heads.queries / heads.keys;
  return each.reshape({each.size(0) / share, share * each.size(1), each.size(2)});
}

Groups split_groups(const at::Tensor& q, const at::Tensor& kv, const GroupedHeads& heads,
                    const Packing& packing) {
  const auto parts = detail::split_heads(kv, 2, heads.keys, packing);
  const auto each = grouped_queries(q, heads, packing);
  return {each, parts[0], parts[1], packing_of_queries(q, packing),
          each.size(1) * heads.keys / heads.queries};
}

at::Tensor join_groups(const at::Tensor& read, const GroupedHeads& heads, const Groups& p) {
  const auto each = read.reshape({-1, p.queries, read.size(2)});
  return detail::join_heads(each, heads.queries, p.packing);
}

/// The mask of each sample's, or of all samples' queries, for the queries of all heads: [n·keys' heads, heads
/// of a group × queries, tokens], perhaps expanded.
at::Tensor mask_of_groups(const at::Tensor& mask, const GroupedHeads& heads, const Groups& p) {
  const auto share = heads.queries / heads.keys, rows = p.q.size(0), tokens = p.k.size(1);
  if (mask.dim() == 2)
    return mask.unsqueeze(0)
        .expand({share, p.queries, tokens})
        .reshape({1, share * p.queries, tokens})
        .expand({rows, share * p.queries, tokens});
  return mask.view({-1, 1, 1, p.queries, tokens})
      .expand({mask.size(0), heads.keys, share, p.queries, tokens})
      .reshape({rows, share * p.queries, tokens});
}

struct GroupedWeights {
  at::Tensor weights;
  at::Tensor tanh;  // of the scores over the cap, where there is one
};

GroupedWeights weights_of_groups(const Groups& p, const GroupedHeads& heads, const at::Tensor& mask) {
  const auto each = mask_of_groups(mask, heads, p), keys = p.k.transpose(1, 2);
  if (heads.cap <= 0) return {at::softmax(at::baddbmm(each, p.q, keys, 1, heads.scale), -1), {}};
  const auto tanh = at::tanh(at::bmm(p.q, keys) * (heads.scale / heads.cap));
  return {at::softmax(tanh * heads.cap + each, -1), tanh};
}

}  // namespace

at::Tensor grouped_attention(const at::Tensor& q, const at::Tensor& kv, const GroupedHeads& heads,
                             const at::Tensor& mask, const Packing& packing) {
  const auto p = split_groups(q, kv, heads, packing);
  return join_groups(at::bmm(weights_of_groups(p, heads, mask).weights, p.v), heads, p);
}

Dual grouped_attention(const Dual& q, const Dual& kv, const GroupedHeads& heads, const at::Tensor& mask,
                       const Packing& packing) {
  const auto p = split_groups(q.value, kv.value, heads, packing);
  const auto groups = weights_of_groups(p, heads, mask);
  const at::Tensor &weights = groups.weights, &tanh = groups.tanh;
  Dual y{join_groups(at::bmm(weights, p.v), heads, p), {}};
  y.tangent = detail::tangent_of([&] {
    at::Tensor d_scores, dv;
    if (q.tangent.defined())
      d_scores = at::bmm(grouped_queries(q.tangent, heads, packing), p.k.transpose(1, 2));
    if (kv.tangent.defined()) {
      const auto parts = detail::split_heads(kv.tangent, 2, heads.keys, packing);
      d_scores = d_scores.defined() ? d_scores.baddbmm_(p.q, parts[0].transpose(1, 2))
                                    : at::bmm(p.q, parts[0].transpose(1, 2));
      dv = parts[1];
    }
    if (d_scores.defined()) d_scores.mul_(heads.scale);
    if (d_scores.defined() && tanh.defined()) d_scores.mul_(1 - tanh.square());
    const auto t = tangent_by_heads(weights, d_scores, p.v, dv);
    return t.defined() ? join_groups(t, heads, p) : t;
  });
  return y;
}

Recorded grouped_attention(const Recorded& q, const Recorded& kv, const GroupedHeads& heads,
                           const at::Tensor& mask, const Packing&) {
  return {grouped_attention(q.value, kv.value, heads, mask), q.tape, -1};
}

Counted grouped_attention(const Counted& q, const Counted& kv, const GroupedHeads& heads, const at::Tensor&,
                          const Packing&) {
  return counted_attention(q, kv.shape[1], q.shape[2], heads.queries,
                           detail::numbers(q) + detail::numbers(kv));
}

}  // namespace taugrid::autodiff
