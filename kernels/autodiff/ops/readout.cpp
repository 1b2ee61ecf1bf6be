// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Logits of constant rows.
#include <ATen/ATen.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {

using detail::tangent_of;

at::Tensor cosine_logits(const at::Tensor& z, const at::Tensor& head, double scale) {
  return at::mm(z, head.t()) * scale;
}

Dual cosine_logits(const Dual& z, const at::Tensor& head, double scale) {
  return {cosine_logits(z.value, head, scale), tangent_of([&] {
            return z.tangent.defined() ? cosine_logits(z.tangent, head, scale) : at::Tensor();
          })};
}

Recorded cosine_logits(const Recorded& z, const at::Tensor& head, double scale) {
  return {cosine_logits(z.value, head, scale), z.tape, -1};
}

Counted cosine_logits(const Counted& z, const at::Tensor& head, double) {
  auto y = detail::counted(z.meter, {z.shape[0], head.size(0)});
  y.meter->multiply(2 * detail::numbers(z) * static_cast<double>(head.size(0)));
  y.meter->pass(detail::numbers(y), detail::numbers(y));
  return y;
}

at::Tensor affine_logits(const at::Tensor& z, const at::Tensor& head, const at::Tensor& bias) {
  return at::addmm(bias, z, head.t());
}

Dual affine_logits(const Dual& z, const at::Tensor& head, const at::Tensor& bias) {
  return {affine_logits(z.value, head, bias),
          tangent_of([&] { return z.tangent.defined() ? at::mm(z.tangent, head.t()) : at::Tensor(); })};
}

Recorded affine_logits(const Recorded& z, const at::Tensor& head, const at::Tensor& bias) {
  return {affine_logits(z.value, head, bias), z.tape, -1};
}

Counted affine_logits(const Counted& z, const at::Tensor& head, const at::Tensor&) {
  auto y = detail::counted(z.meter, {z.shape[0], head.size(0)});
  y.meter->multiply(2 * detail::numbers(z) * static_cast<double>(head.size(0)));
  return y;
}

// log p(sequence) = Σ over its edges of (x[node, token] − log Σ exp x[node, ·]); of a row's choice likewise

namespace {

/// [n, places, rows]
at::Tensor logits_at_places(const at::Tensor& x, const at::Tensor& head, const Paths& paths) {
  const auto places = x.reshape({x.size(0), paths.nodes, -1});
  return head.defined() ? at::matmul(places, head.t()) : places;
}

/// The edges' part of the numbers [n, places, rows], less those of their places [n, places]; added up by
/// sequences.
at::Tensor along_paths(const at::Tensor& of_tokens, const at::Tensor& of_places, const Paths& paths) {
  const auto edges = of_tokens.flatten(1).index_select(1, paths.node * of_tokens.size(2) + paths.token) -
                     of_places.index_select(1, paths.node);
  return at::mm(edges, paths.member.to(edges.scalar_type()));
}

}  // namespace

at::Tensor sequence_scores(const at::Tensor& x, const at::Tensor& head, const Paths& paths) {
  const auto logits = logits_at_places(x, head, paths);
  return along_paths(logits, logits.logsumexp(2), paths);
}

Dual sequence_scores(const Dual& x, const at::Tensor& head, const Paths& paths) {
  return {sequence_scores(x.value, head, paths), tangent_of([&] {
            if (!x.tangent.defined()) return at::Tensor();
            const auto t = logits_at_places(x.tangent, head, paths);
            return along_paths(t, (logits_at_places(x.value, head, paths).softmax(2) * t).sum(2), paths);
          })};
}

Recorded sequence_scores(const Recorded& x, const at::Tensor& head, const Paths& paths) {
  return {sequence_scores(x.value, head, paths), x.tape, -1};
}

Counted sequence_scores(const Counted& x, const at::Tensor& head, const Paths& paths) {
  auto y = detail::counted(x.meter, {x.shape[0], paths.member.size(1)});
  if (head.defined()) y.meter->multiply(2 * detail::numbers(x) * static_cast<double>(head.size(0)));
  detail::keep(x);
  return y;
}

namespace {

/// [n, places, rows], in float32 at least: what follows adds up over the vocabulary and over tokens.
at::Tensor exact_logits(const at::Tensor& x, const at::Tensor& head) {
  const auto exact = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  return head.defined() ? at::matmul(exact, head.to(exact.scalar_type()).t()) : exact;
}

/// Whether a place is read for a choice, bool [n, places, choices].
at::Tensor member_of(const at::Tensor& scored, std::int64_t choices) {
  return scored.select(2, 1).unsqueeze(2).eq(at::arange(choices, scored.options()));
}

/// Each place's number at its token [n, places, rows], less that of the place [n, places]; added up by
/// choices. A product adds in the same order everywhere.
at::Tensor by_choices(const at::Tensor& of_tokens, const at::Tensor& of_places, const at::Tensor& scored,
                      const at::Tensor& member) {
  const auto token = scored.select(2, 0).clamp_min(0).unsqueeze(2);
  const auto at_tokens = of_tokens.gather(2, token).squeeze(2) - of_places;
  return at::bmm(at_tokens.unsqueeze(1), member.to(at_tokens.scalar_type())).squeeze(1);
}

}  // namespace

at::Tensor choice_scores(const at::Tensor& x, const at::Tensor& head, const at::Tensor& scored,
                         std::int64_t choices) {
  const auto logits = exact_logits(x, head), member = member_of(scored, choices);
  return by_choices(logits, logits.logsumexp(2), scored, member)
      .masked_fill(member.any(1).logical_not(), no_choice);
}

Dual choice_scores(const Dual& x, const at::Tensor& head, const at::Tensor& scored, std::int64_t choices) {
  return {choice_scores(x.value, head, scored, choices), tangent_of([&] {
            if (!x.tangent.defined()) return at::Tensor();
            const auto t = exact_logits(x.tangent, head);
            return by_choices(t, (exact_logits(x.value, head).softmax(2) * t).sum(2), scored,
                              member_of(scored, choices));
          })};
}

Recorded choice_scores(const Recorded& x, const at::Tensor& head, const at::Tensor& scored,
                       std::int64_t choices) {
  return {choice_scores(x.value, head, scored, choices), x.tape, -1};
}

Counted choice_scores(const Counted& x, const at::Tensor& head, const at::Tensor&, std::int64_t choices) {
  auto y = detail::counted(x.meter, {x.shape[0], choices});
  if (head.defined()) y.meter->multiply(2 * detail::numbers(x) * static_cast<double>(head.size(0)));
  detail::keep(x);
  return y;
}

}  // namespace taugrid::autodiff
