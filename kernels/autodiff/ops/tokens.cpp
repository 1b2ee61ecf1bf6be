// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Tokens of a sequence: a first one, their positions, what is read of them.
#include <ATen/ATen.h>

#include "kernels/autodiff/detail/rules.hpp"
#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {

using detail::tangent_of;

at::Tensor prepend_token(const at::Tensor& token, const at::Tensor& x) {
  return at::cat({token.view({1, 1, -1}).expand({x.size(0), 1, x.size(2)}), x}, 1);
}

Dual prepend_token(const Dual& token, const Dual& x) {
  Dual y{prepend_token(token.value, x.value), {}};
  y.tangent = tangent_of([&] {
    if (!token.tangent.defined() && !x.tangent.defined()) return at::Tensor();
    return prepend_token(tangent_or_zeros(token), tangent_or_zeros(x));
  });
  return y;
}

Recorded prepend_token(const Recorded& token, const Recorded& x) {
  Recorded y{prepend_token(token.value, x.value), x.tape, -1};
  y.tape->uses.push_back({Use::Form::token, token.block, {}, {}, detail::keep(*y.tape, y.value)});
  return y;
}

Counted prepend_token(const Counted&, const Counted& x) {
  auto y = detail::counted(x.meter, {x.shape[0], x.shape[1] + 1, x.shape[2]});
  y.meter->record(y.storage);
  return y;
}

namespace {

/// The rows of `position` that x has tokens for, from `first` on.
at::Tensor rows_for(const at::Tensor& x, const at::Tensor& position, std::int64_t first) {
  return first == 0 && position.size(0) == x.size(1) ? position : position.narrow(0, first, x.size(1));
}

}  // namespace

at::Tensor add_position(const at::Tensor& x, const at::Tensor& position, std::int64_t first) {
  return x + rows_for(x, position, first);
}

Dual add_position(const Dual& x, const Dual& position, std::int64_t first) {
  Dual y{add_position(x.value, position.value, first), {}};
  y.tangent = tangent_of([&] {
    if (!position.tangent.defined()) return x.tangent;
    const auto t = rows_for(x.value, position.tangent, first);
    return x.tangent.defined() ? x.tangent + t : t.expand_as(x.value).contiguous();
  });
  return y;
}

Recorded add_position(const Recorded& x, const Recorded& position, std::int64_t first) {
  Recorded y{add_position(x.value, position.value, first), x.tape, -1};
  y.tape->uses.push_back({Use::Form::whole, position.block, {}, {}, detail::keep(*y.tape, y.value), first});
  return y;
}

Counted add_position(const Counted& x, const Counted&, std::int64_t) {
  auto y = detail::counted(x.meter, x.shape);
  y.meter->record(y.storage);
  return y;
}

at::Tensor first_token(const at::Tensor& x) { return x.select(1, 0); }

Dual first_token(const Dual& x) {
  return {first_token(x.value), x.tangent.defined() ? first_token(x.tangent) : at::Tensor()};
}

Recorded first_token(const Recorded& x) { return {first_token(x.value), x.tape, -1}; }

Counted first_token(const Counted& x) {  // a view: all tokens stay where they are
  return {{x.shape[0], x.shape[2]}, x.storage, x.meter, -1};
}

at::Tensor some_tokens(const at::Tensor& x, std::int64_t first, std::int64_t count) {
  return x.narrow(1, first, count);
}

Dual some_tokens(const Dual& x, std::int64_t first, std::int64_t count) {
  return {some_tokens(x.value, first, count),
          x.tangent.defined() ? some_tokens(x.tangent, first, count) : at::Tensor()};
}

Recorded some_tokens(const Recorded& x, std::int64_t first, std::int64_t count) {
  return {some_tokens(x.value, first, count), x.tape, -1};
}

Counted some_tokens(const Counted& x, std::int64_t, std::int64_t count) {  // a view
  return {{x.shape[0], count, x.shape[2]}, x.storage, x.meter, -1};
}

at::Tensor as_tokens(const at::Tensor& x) { return x.unsqueeze(1); }

Dual as_tokens(const Dual& x) {
  return {as_tokens(x.value), x.tangent.defined() ? as_tokens(x.tangent) : at::Tensor()};
}

Recorded as_tokens(const Recorded& x) { return {as_tokens(x.value), x.tape, -1}; }

Counted as_tokens(const Counted& x) {  // a view
  return {{x.shape[0], 1, x.shape[1]}, x.storage, x.meter, -1};
}

at::Tensor flatten_tokens(const at::Tensor& x) { return x.flatten(1); }

Dual flatten_tokens(const Dual& x) {
  return {flatten_tokens(x.value), x.tangent.defined() ? flatten_tokens(x.tangent) : at::Tensor()};
}

Recorded flatten_tokens(const Recorded& x) { return {flatten_tokens(x.value), x.tape, -1}; }

Counted flatten_tokens(const Counted& x) {  // a view
  return {{x.shape[0], x.shape[1] * x.shape[2]}, x.storage, x.meter, -1};
}

at::Tensor join_tokens(const at::Tensor& x, const at::Tensor& y) { return at::cat({x, y}, 1); }

Dual join_tokens(const Dual& x, const Dual& y) {
  return {join_tokens(x.value, y.value), tangent_of([&] {
            if (!x.tangent.defined() && !y.tangent.defined()) return at::Tensor();
            return join_tokens(tangent_or_zeros(x), tangent_or_zeros(y));
          })};
}

Recorded join_tokens(const Recorded& x, const Recorded& y) {
  return {join_tokens(x.value, y.value), x.tape, -1};
}

Counted join_tokens(const Counted& x, const Counted& y) {
  return detail::counted(x.meter, {x.shape[0], x.shape[1] + y.shape[1], x.shape[2]});
}

at::Tensor token_at(const at::Tensor& x, const at::Tensor& places) {
  const auto first = at::arange(x.size(0), places.options()) * x.size(1);
  return x.flatten(0, 1).index_select(0, first + places);
}

Dual token_at(const Dual& x, const at::Tensor& places) {
  return {token_at(x.value, places),
          tangent_of([&] { return x.tangent.defined() ? token_at(x.tangent, places) : at::Tensor(); })};
}

Recorded token_at(const Recorded& x, const at::Tensor& places) {
  return {token_at(x.value, places), x.tape, -1};
}

Counted token_at(const Counted& x, const at::Tensor&) {
  return detail::counted(x.meter, {x.shape[0], x.shape[2]});
}

at::Tensor weighted_tokens(const at::Tensor& x, const at::Tensor& weights) {
  return (x * weights.unsqueeze(-1)).sum(1);
}

Dual weighted_tokens(const Dual& x, const at::Tensor& weights) {
  return {weighted_tokens(x.value, weights), tangent_of([&] {
            return x.tangent.defined() ? weighted_tokens(x.tangent, weights) : at::Tensor();
          })};
}

Recorded weighted_tokens(const Recorded& x, const at::Tensor& weights) {
  return {weighted_tokens(x.value, weights), x.tape, -1};
}

Counted weighted_tokens(const Counted& x, const at::Tensor&) {
  x.meter->pass(detail::numbers(x), detail::numbers(x));
  return detail::counted(x.meter, {x.shape[0], x.shape[2]});
}

}  // namespace taugrid::autodiff
