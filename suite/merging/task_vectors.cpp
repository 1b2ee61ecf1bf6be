// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/task_vectors.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace taugrid::merging {

std::int64_t longest_of(const std::vector<NamedTensor>& tensors) {
  std::int64_t longest = 0;
  for (const auto& tensor : tensors) longest = std::max(longest, tensor.range.count);
  return longest;
}

std::vector<std::size_t> TaskVectors::all() const {
  std::vector<std::size_t> which(count());
  std::iota(which.begin(), which.end(), 0);
  return which;
}

std::int64_t TaskVectors::stretch(std::size_t vectors, std::int64_t align, std::int64_t together) {
  constexpr std::int64_t least = std::int64_t{1} << 12;
  const auto wanted =
      std::max(least, together / std::max<std::int64_t>(1, static_cast<std::int64_t>(vectors)));
  return std::max<std::int64_t>(1, wanted / align) * align;
}

void TaskVectors::do_visit_stretches(const std::vector<std::size_t>& which, Range range,
                                     const StretchVisitor& visitor, double) const {
  do_visit(which, range, 1, of_tau(visitor));
}

HeldVectors::HeldVectors(std::vector<NamedTensor> tensors, std::vector<at::Tensor> vectors,
                         at::Tensor theta0_vector)
    : tensors_(std::move(tensors)), vectors_(std::move(vectors)), start_(std::move(theta0_vector)) {}

void HeldVectors::do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                           const Visitor& visitor) const {
  cut(which, range, stretch(which.size(), align), visitor);
}

void HeldVectors::do_visit_stretches(const std::vector<std::size_t>& which, Range range,
                                     const StretchVisitor& visitor, double) const {
  cut(which, range, long_stretch, of_tau(visitor));
}

void HeldVectors::cut(const std::vector<std::size_t>& which, Range range, std::int64_t size,
                      const Visitor& visitor) const {
  std::vector<at::Tensor> stretches(which.size());
  for (auto begin = range.begin; begin < range.end(); begin += size) {
    const auto n = std::min(size, range.end() - begin);
    for (std::size_t i = 0; i < which.size(); ++i)
      stretches[i] = (which[i] == theta0 ? start_ : vectors_[which[i]]).narrow(0, begin, n);
    visitor(begin, stretches);
  }
}

}  // namespace taugrid::merging
