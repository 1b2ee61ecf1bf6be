// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Operations on recorded values: as in ops.cpp, and each use of a parameter block is put on the tape.
#include <ATen/ATen.h>

#include "kernels/autodiff/ops.hpp"

namespace taugrid::autodiff {
namespace {

/// Puts an output on the tape. The first output of a model has no graph yet: it becomes the graph's leaf.
std::size_t keep(Tape& tape, at::Tensor& output) {
  if (!output.requires_grad()) output.requires_grad_(true);
  tape.outputs.push_back(output);
  return tape.outputs.size() - 1;
}

}  // namespace

Recorded linear(const Recorded& x, const Recorded& weight, const Recorded& bias) {
  Recorded y{linear(x.value, weight.value, bias.value), x.tape, -1};
  const auto output = keep(*y.tape, y.value);
  y.tape->uses.push_back({Use::Form::weight, weight.block, x.value.detach(), output});
  if (bias.value.defined()) y.tape->uses.push_back({Use::Form::bias, bias.block, {}, output});
  return y;
}

Recorded linear(const Recorded& x, const Recorded& weight) { return linear(x, weight, Recorded{}); }

Recorded layer_norm(const Recorded& x, const Recorded& weight, const Recorded& bias, double eps) {
  Recorded y{layer_norm(x.value, weight.value, bias.value, eps), x.tape, -1};
  const auto output = keep(*y.tape, y.value);
  const auto normed = layer_norm(x.value.detach(), {}, {}, eps);
  y.tape->uses.push_back({Use::Form::scale, weight.block, normed, output});
  y.tape->uses.push_back({Use::Form::bias, bias.block, {}, output});
  return y;
}

Recorded activate(const Recorded& x, Activation activation) {
  return {activate(x.value, activation), x.tape, -1};
}

Recorded attention(const Recorded& qkv, std::int64_t heads) {
  return {attention(qkv.value, heads), qkv.tape, -1};
}

Recorded add(const Recorded& x, const Recorded& y) { return {x.value + y.value, x.tape, -1}; }

Recorded prepend_token(const Recorded& token, const Recorded& x) {
  Recorded y{prepend_token(token.value, x.value), x.tape, -1};
  y.tape->uses.push_back({Use::Form::token, token.block, {}, keep(*y.tape, y.value)});
  return y;
}

Recorded add_position(const Recorded& x, const Recorded& position) {
  Recorded y{x.value + position.value, x.tape, -1};
  y.tape->uses.push_back({Use::Form::whole, position.block, {}, keep(*y.tape, y.value)});
  return y;
}

Recorded first_token(const Recorded& x) { return {first_token(x.value), x.tape, -1}; }
Recorded normalise_rows(const Recorded& z) { return {normalise_rows(z.value), z.tape, -1}; }

Recorded cosine_logits(const Recorded& z, const at::Tensor& head, double scale) {
  return {cosine_logits(z.value, head, scale), z.tape, -1};
}

Recorded constant(const at::Tensor& x, const Recorded& like) { return {x, like.tape, -1}; }

}  // namespace taugrid::autodiff
