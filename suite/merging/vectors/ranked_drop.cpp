// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/vectors/ranked_drop.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/weights/merging.hpp"

namespace taugrid::merging {

void RankDropped::see(const std::vector<std::size_t>& which, Range range, const See& see) const {
  std::vector<at::Tensor> kept(which.size()), before(which.size());
  for (const auto& tensor : tensors()) {
    const auto from = std::max(range.begin, tensor.range.begin),
               until = std::min(range.end(), tensor.range.end());
    if (from >= until) continue;
    const auto row = tensor.shape.size() < 2 ? tensor.range.count : tensor.range.count / tensor.shape.front();
    const auto first = (from - tensor.range.begin) / row * row,
               last = (until - tensor.range.begin + row - 1) / row * row;
    const Range rows = {tensor.range.begin + first, last - first};
    whole_.visit(which, rows, row, [&](std::int64_t begin, std::span<const at::Tensor> x) {
      const auto end = begin + x.front().numel(), place = std::max(begin, from);
      for (std::size_t i = 0; i < which.size(); ++i) {
        before[i] = x[i].narrow(0, place - begin, std::min(end, until) - place);
        kept[i] = which[i] == theta0
                      ? before[i]
                      : dropped(which[i], begin, x[i], row).narrow(0, place - begin, before[i].numel());
      }
      see(place, kept, before);
    });
  }
}

void RankDropped::do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                           const Visitor& visitor) const {
  if (align != 1) throw std::logic_error("vectors are dropped row by row, and visited in aligns of 1");
  see(which, range, [&](std::int64_t begin, std::span<const at::Tensor> kept, std::span<const at::Tensor>) {
    visitor(begin, kept);
  });
}

at::Tensor RankDropped::dropped(std::size_t t, std::int64_t begin, const at::Tensor& x,
                                std::int64_t row) const {
  const double density = rule_.density.of(t), epsilon = rule_.epsilon.of(t);
  if (density >= 1 || !x.any().item<bool>()) return x;  // zeros, as of frozen tensors, need no order
  const auto order = x.abs().view({-1, row}).argsort(/*stable=*/true, /*dim=*/1);
  const auto ranks = at::empty_like(order).scatter_(1, order, at::arange(row).expand_as(order));
  // A row of one number has no larger one.
  const auto place = row > 1 ? ranks.to(at::kDouble) * (2.0 / static_cast<double>(row - 1)) - 1
                             : at::zeros_like(ranks, at::kDouble);
  auto kept = at::empty_like(x);
  weights::drop_each({.seed = rule_.seed}, static_cast<std::int64_t>(t), begin, x,
                     (density + epsilon * place).view({-1}), rule_.rescales, kept);
  return kept;
}

}  // namespace taugrid::merging
