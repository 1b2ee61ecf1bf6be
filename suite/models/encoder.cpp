// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/encoder.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "suite/models/label_tree.hpp"
#include "suite/models/readout.hpp"

namespace taugrid::models {

const autodiff::Layout& Encoder::buffers() const {
  static const autodiff::Layout none;
  return none;
}

at::Tensor Encoder::constant(const std::string&) const { return {}; }

State Encoder::random_state_of_open_clip(std::uint64_t) const {
  throw std::logic_error(architecture() + " is not drawn by open_clip");
}

int first_trained_stage(const autodiff::Layout& layout, const std::vector<bool>& trained) {
  int first = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    if (trained.empty() || trained[i]) first = std::min(first, layout.blocks()[i].stage);
  }
  return first;
}

Batch random_batch(const Encoder& encoder, std::int64_t n, std::int64_t tokens, std::int64_t decoded) {
  const auto takes = encoder.takes();
  if (tokens == 0) tokens = takes.tokens;
  if (takes.text()) {
    Batch texts{
        at::randint(0, takes.vocabulary, {n, tokens}, at::kLong), at::full({n}, tokens, at::kLong), {}};
    if (takes.mask) texts.mask = at::zeros({n}, at::kLong);
    if (decoded > 0) {
      texts.decoder = at::randint(0, takes.vocabulary, {n, decoded}, at::kLong);
      texts.sees = sees_before(decoded).expand({n, decoded, decoded});
      texts.scored = at::zeros({n, decoded, 2}, at::kLong);
    }
    return texts;
  }
  return {at::rand({n, takes.channels, takes.image_size, takes.image_size}), {}, {}};
}

namespace {

template <class To>
Readout moved(Readout readout, To&& to) {
  for (auto* tensor : {&readout.weight, &readout.bias, &readout.words, &readout.paths.node,
                       &readout.paths.token, &readout.paths.member, &readout.letters}) {
    if (tensor->defined()) *tensor = to(*tensor);
  }
  return readout;
}

}  // namespace

at::Tensor Readout::loss(const at::Tensor& logits, const at::Tensor& labels) const {
  if (kind == Kind::sequences || kind == Kind::choices)
    return -logits.gather(1, classes_of(labels).unsqueeze(1)).sum();
  if (kind == Kind::text)
    return at::cross_entropy_loss(logits.view({-1, vocabulary}), labels.flatten(), std::nullopt,
                                  at::Reduction::Sum, no_token);
  return at::cross_entropy_loss(logits, labels, std::nullopt, at::Reduction::Sum);
}

double Readout::loss_items(const at::Tensor& labels) const {
  if (kind == Kind::text) return static_cast<double>(labels.ge(0).sum().item<std::int64_t>());
  if (kind == Kind::choices) return static_cast<double>(labels.select(1, items).sum().item<std::int64_t>());
  if (kind != Kind::sequences) return static_cast<double>(labels.size(0));
  return at::tensor(lengths, at::kDouble).index_select(0, labels.cpu()).sum().item<double>();
}

at::Tensor Readout::logits_of_text(const at::Tensor& output) const {
  if (!weight.defined()) return output;
  return at::matmul(output.reshape({output.size(0), paths.nodes, -1}), weight.t()).flatten(1);
}

at::Tensor Readout::compared(const at::Tensor& logits, const at::Tensor& labels) const {
  if (kind == Kind::choices) {
    const auto by = labels.narrow(1, parts, most);
    return (logits / by.clamp_min(1)).masked_fill(by.eq(0), -std::numeric_limits<double>::infinity());
  }
  return letters.defined() ? logits / letters.to(logits.scalar_type()) : logits;
}

at::Tensor Readout::correct(const at::Tensor& logits, const at::Tensor& labels) const {
  if (kind != Kind::text) return compared(logits, labels).argmax(1).eq(classes_of(labels));
  const auto said = logits.view({labels.size(0), labels.size(1), vocabulary}).argmax(2);
  return said.eq(labels).logical_or(labels.lt(0)).all(1);
}

Readout Readout::to(at::Device device) const {
  return moved(*this, [&](const at::Tensor& x) { return x.to(device); });
}

Readout Readout::to(at::ScalarType type) const {
  return moved(*this, [&](const at::Tensor& x) { return x.is_floating_point() ? x.to(type) : x; });
}

}  // namespace taugrid::models
