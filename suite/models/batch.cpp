// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/batch.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace taugrid::models {
namespace {

std::int64_t longest(const at::Tensor& lengths) {
  return lengths.size(0) == 0 ? 1 : lengths.max().item<std::int64_t>();
}

/// The first `tokens` of each sequence: of ids [n, t], of hidden states [n, t, d].
at::Tensor cut(const at::Tensor& x, std::int64_t tokens) {
  return x.size(1) == tokens ? x : x.narrow(1, 0, tokens);
}

at::Tensor pad(const at::Tensor& x, std::int64_t tokens) {
  if (x.size(1) == tokens) return x;
  const auto more = tokens - x.size(1);
  return x.dim() == 2 ? at::constant_pad_nd(x, {0, more}) : at::constant_pad_nd(x, {0, 0, 0, more});
}

/// What a batch of texts holds, with room for so many of the decoder's places and of tokens.
at::Tensor widened(const Batch& b, std::int64_t before, std::int64_t tokens) {
  if (b.before_text == before) return pad(b.held(), before + tokens);
  const auto places = b.held().narrow(1, 0, b.before_text),
             text = b.held().narrow(1, b.before_text, b.tokens());
  return at::cat({pad(places, before), pad(text, tokens)}, 1);
}

/// Leaves out the places that are there for the sake of rows that the batch no longer has: its numbers are
/// those of a batch that never had these rows.
void cut_places(Batch& batch) {
  if (!batch.places.defined()) return;
  const auto used = longest(batch.places);
  if (used == batch.decoded()) return;
  if (batch.before_text > 0) {
    const auto text = batch.hidden.narrow(1, batch.before_text, batch.tokens());
    batch.hidden = at::cat({batch.hidden.narrow(1, 0, used), text}, 1);
    batch.before_text = used;
  }
  batch.decoder = batch.decoder.narrow(1, 0, used).contiguous();
  batch.sees = batch.sees.narrow(1, 0, used).narrow(2, 0, used).contiguous();
  batch.scored = batch.scored.narrow(1, 0, used).contiguous();
}

/// Places that are only there for others' sake see themselves.
void join_decoders(const std::vector<Batch>& batches, Batch& all) {
  std::int64_t places = 0;
  for (const auto& b : batches) places = std::max(places, b.decoded());
  std::vector<at::Tensor> tokens, sees, scored, own;
  for (const auto& b : batches) {
    const auto more = places - b.decoded();
    tokens.push_back(pad(b.decoder, places));
    sees.push_back(at::constant_pad_nd(b.sees, {0, more, 0, more}));
    if (b.scored.defined()) scored.push_back(at::constant_pad_nd(b.scored, {0, 0, 0, more}, -1));
    if (b.places.defined()) own.push_back(b.places);
  }
  all.decoder = at::cat(tokens);
  if (scored.size() == batches.size()) all.scored = at::cat(scored);
  if (own.size() == batches.size()) all.places = at::cat(own);
  all.sees = at::cat(sees).logical_or(at::eye(places, all.decoder.options()).to(at::kBool));
}

}  // namespace

Batch Batch::narrow(std::int64_t begin, std::int64_t count) const {
  Batch some{{}, {}, {}, from};
  auto rows = held().narrow(0, begin, count);
  if (text()) {
    some.lengths = lengths.narrow(0, begin, count);
    rows = cut(rows, before_text + longest(some.lengths));
  }
  some.before_text = before_text;
  (from > 0 ? some.hidden : some.inputs) = rows;
  if (types.defined()) some.types = cut(types.narrow(0, begin, count), rows.size(1) - before_text);
  if (mask.defined()) some.mask = mask.narrow(0, begin, count);
  if (decoder.defined()) {
    some.decoder = decoder.narrow(0, begin, count);
    some.sees = sees.narrow(0, begin, count);
    if (scored.defined()) some.scored = scored.narrow(0, begin, count);
    if (places.defined()) some.places = places.narrow(0, begin, count);
    cut_places(some);
  }
  return some;
}

Batch Batch::select(const at::Tensor& which) const {
  const auto there = which.to(held().device());
  Batch some{{}, {}, {}, from};
  auto rows = held();
  if (text()) {
    some.lengths = lengths.index_select(0, which);
    rows = cut(rows, before_text + longest(some.lengths));
  }
  some.before_text = before_text;
  (from > 0 ? some.hidden : some.inputs) = rows.index_select(0, there);
  if (types.defined()) some.types = cut(types, rows.size(1) - before_text).index_select(0, there);
  if (mask.defined()) some.mask = mask.index_select(0, there);
  if (decoder.defined()) {
    some.decoder = decoder.index_select(0, there);
    some.sees = sees.index_select(0, there);
    if (scored.defined()) some.scored = scored.index_select(0, there);
    if (places.defined()) some.places = places.index_select(0, which);
    cut_places(some);
  }
  return some;
}

Batch Batch::to(at::ScalarType type) const {
  auto same = *this;
  auto& tensor = from > 0 ? same.hidden : same.inputs;
  if (tensor.is_floating_point()) tensor = tensor.to(type);
  return same;
}

Batch joined(const std::vector<Batch>& batches) {
  if (batches.size() == 1) return batches.front();
  Batch all{{}, {}, {}, batches.front().from};
  all.before_text = batches.front().before_text;
  std::vector<at::Tensor> parts, lengths;
  std::int64_t tokens = 0;
  if (batches.front().text()) {
    for (const auto& b : batches) {
      lengths.push_back(b.lengths);
      tokens = std::max(tokens, b.tokens());
      all.before_text = std::max(all.before_text, b.before_text);
    }
    all.lengths = at::cat(lengths);
  }
  for (const auto& b : batches) parts.push_back(b.text() ? widened(b, all.before_text, tokens) : b.held());
  (all.from > 0 ? all.hidden : all.inputs) = at::cat(parts);
  if (std::any_of(batches.begin(), batches.end(), [](const Batch& b) { return b.types.defined(); })) {
    parts.clear();
    for (const auto& b : batches)
      parts.push_back(pad(b.types.defined() ? b.types : at::zeros_like(b.inputs), tokens));
    all.types = at::cat(parts);
  }
  if (batches.front().mask.defined()) {
    parts.clear();
    for (const auto& b : batches) parts.push_back(b.mask);
    all.mask = at::cat(parts);
  }
  if (batches.front().decoder.defined()) join_decoders(batches, all);
  return all;
}

at::Tensor tokens_in_use(const Batch& batch) {
  return at::arange(batch.tokens(), at::kLong).unsqueeze(0) < batch.lengths.unsqueeze(1);
}

at::Tensor attention_mask(const Batch& batch, const at::TensorOptions& options) {
  const auto tokens = batch.tokens();
  if (batch.lengths.ge(tokens).all().item<bool>()) return {};
  return at::zeros({batch.size(), tokens}, options.device(at::kCPU))
      .masked_fill_(tokens_in_use(batch).logical_not(), -std::numeric_limits<double>::infinity())
      .to(options.device(), /*non_blocking=*/true);
}

at::Tensor mean_weights(const Batch& batch, const at::TensorOptions& options) {
  return tokens_in_use(batch)
      .to(at::kDouble)
      .div_(batch.lengths.unsqueeze(1))
      .to(options.device(at::kCPU))
      .to(options.device(), /*non_blocking=*/true);
}

}  // namespace taugrid::models
