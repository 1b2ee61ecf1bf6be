// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What the operations share: how a tangent is computed, how a use comes onto the tape, what shapes hold.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/autodiff/numbers.hpp"

namespace taugrid::autodiff::detail {

/// Computes a tangent outside any autograd graph.
template <class Rule>
at::Tensor tangent_of(Rule&& rule) {
  const at::NoGradGuard no_grad;
  return rule();
}

inline at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

inline at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// Pictures [n, c, h, w] as convolutions take them: where channels lie last, the processor's kernels need a
/// quarter of the time if channels are few, and never more.
inline at::Tensor with_channels_last(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

/// Puts an output on the tape. The first output of a model has no graph yet: it becomes the graph's leaf.
inline std::size_t keep(Tape& tape, at::Tensor& output) {
  if (!output.requires_grad()) output.requires_grad_(true);
  tape.outputs.push_back(output);
  return tape.outputs.size() - 1;
}

inline double numbers(const std::vector<std::int64_t>& shape) {
  double product = 1;
  for (const auto extent : shape) product *= static_cast<double>(extent);
  return product;
}
inline double numbers(const Counted& x) { return numbers(x.shape); }
/// The product of all dimensions but the last.
inline double rows(const Counted& x) { return numbers(x) / static_cast<double>(x.shape.back()); }

/// A new result of `shape`.
inline Counted counted(Meter* meter, std::vector<std::int64_t> shape) {
  const double size = numbers(shape);
  return {std::move(shape), meter->allocate(size), meter, -1};
}

/// A parameter is there anyway; an activation is kept.
inline void keep(const Counted& x) {
  if (x.block < 0) x.meter->keep(x.storage);
}

}  // namespace taugrid::autodiff::detail
