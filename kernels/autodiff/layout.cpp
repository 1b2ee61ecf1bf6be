// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/autodiff/layout.hpp"

#include <ATen/ATen.h>

#include <stdexcept>

namespace taugrid::autodiff {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::embedding:
      return "embedding";
    case Kind::attention_weight:
      return "attention weight";
    case Kind::attention_bias:
      return "attention bias";
    case Kind::mlp_weight:
      return "MLP weight";
    case Kind::mlp_bias:
      return "MLP bias";
    case Kind::norm:
      return "norm";
    case Kind::projection:
      return "projection";
    case Kind::convolution:
      return "convolution";
    case Kind::word_head:
      return "word head";
  }
  return "?";
}

namespace {

// Numbers of a model: beyond any memory, and so far from overflow that sizes may be multiplied.
constexpr auto most = std::int64_t{1} << 48;

}  // namespace

std::vector<std::int64_t> Parameter::stored_shape() const {
  if (!transposed) return shape;
  return {shape.rbegin(), shape.rend()};
}

at::Tensor Parameter::turned(const at::Tensor& numbers) const { return transposed ? numbers.t() : numbers; }

std::size_t Layout::add(Kind kind, const std::vector<std::string>& names,
                        const std::vector<std::int64_t>& each, const std::vector<std::int64_t>& shape) {
  Block block;
  block.kind = kind;
  block.stage = stage_;
  block.offset = size_;
  for (const auto& name : names) {
    Parameter parameter{name, each, size_, 1, kind};
    for (const auto extent : each) {
      if (extent < 1 || parameter.count > most / extent) throw std::length_error(name + " is too large");
      parameter.count *= extent;
    }
    size_ += parameter.count;
    if (size_ > most) throw std::length_error("the model is too large");
    parameters_.push_back(std::move(parameter));
  }
  block.count = size_ - block.offset;
  block.shape = shape.empty() ? each : shape;
  if (names.size() > 1) block.shape[0] *= static_cast<std::int64_t>(names.size());
  blocks_.push_back(std::move(block));
  return blocks_.size() - 1;
}

std::size_t Layout::add_transposed(Kind kind, const std::string& name, std::int64_t out, std::int64_t in) {
  const auto index = add(kind, {name}, {out, in});
  parameters_.back().transposed = true;
  return index;
}

void Layout::check(const at::Tensor& theta) const {
  if (theta.dim() != 1 || theta.size(0) != size_ || !theta.is_contiguous()) {
    throw std::invalid_argument("theta: expected one contiguous vector of " + std::to_string(size_) +
                                " numbers");
  }
}

std::vector<at::Tensor> Layout::views(const at::Tensor& theta) const {
  check(theta);
  std::vector<at::Tensor> views;
  views.reserve(blocks_.size());
  for (const auto& block : blocks_)
    views.push_back(theta.narrow(0, block.offset, block.count).view(block.shape));
  return views;
}

std::vector<at::Tensor> Layout::parameter_views(const at::Tensor& theta) const {
  check(theta);
  std::vector<at::Tensor> views;
  views.reserve(parameters_.size());
  for (const auto& p : parameters_) views.push_back(theta.narrow(0, p.offset, p.count).view(p.shape));
  return views;
}

}  // namespace taugrid::autodiff
