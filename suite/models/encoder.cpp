// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/encoder.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "suite/models/readout.hpp"

namespace taugrid::models {

const autodiff::Layout& Encoder::buffers() const {
  static const autodiff::Layout none;
  return none;
}

int first_trained_stage(const autodiff::Layout& layout, const std::vector<bool>& trained) {
  int first = std::numeric_limits<int>::max();
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    if (trained.empty() || trained[i]) first = std::min(first, layout.blocks()[i].stage);
  }
  return first;
}

Batch random_batch(const Encoder& encoder, std::int64_t n, std::int64_t tokens) {
  const auto takes = encoder.takes();
  if (tokens == 0) tokens = takes.tokens;
  if (takes.text()) {
    Batch texts{
        at::randint(0, takes.vocabulary, {n, tokens}, at::kLong), at::full({n}, tokens, at::kLong), {}};
    if (takes.mask) texts.mask = at::zeros({n}, at::kLong);
    return texts;
  }
  return {at::rand({n, takes.channels, takes.image_size, takes.image_size}), {}, {}};
}

namespace {

template <class To>
Readout moved(Readout readout, To&& to) {
  for (auto* tensor : {&readout.weight, &readout.bias, &readout.words}) {
    if (tensor->defined()) *tensor = to(*tensor);
  }
  return readout;
}

}  // namespace

Readout Readout::to(at::Device device) const {
  return moved(*this, [&](const at::Tensor& x) { return x.to(device); });
}

Readout Readout::to(at::ScalarType type) const {
  return moved(*this, [&](const at::Tensor& x) { return x.is_floating_point() ? x.to(type) : x; });
}

}  // namespace taugrid::models
