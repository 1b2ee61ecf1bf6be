// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/vectors/combined_by_tensor.hpp"

#include <ATen/ATen.h>

#include "kernels/weights/merging.hpp"
#include "kernels/weights/weights.hpp"

namespace taugrid::merging {

std::int64_t CombinedByTensor::run(const TaskVectors& vectors, const std::vector<double>&, const Sink& sink,
                                   const Team&) const {
  auto which = vectors.all();
  if (sees_start()) which.push_back(TaskVectors::theta0);
  std::int64_t nonzero = 0;
  at::Tensor zeros;
  for (const auto& tensor : vectors.tensors()) {
    const auto range = tensor.range;
    weights::GramSum sum(static_cast<std::int64_t>(which.size()), range.count);
    vectors.visit(which, range, sum.step(), [&](std::int64_t begin, std::span<const at::Tensor> x) {
      sum.add(begin - range.begin, {x});
    });
    const auto alpha = factors(sum.gram()).view({1, -1});
    vectors.visit(which, range, 1, [&](std::int64_t begin, std::span<const at::Tensor> x) {
      if (rounds_products()) {
        weights::MergeRule rule;
        for (std::int64_t i = 0; i < alpha.numel(); ++i) rule.weight.push_back(alpha[0][i].item<float>());
        rule.rounds_products = true;
        auto merged = at::empty_like(x.front());
        nonzero += weights::merge(rule, begin, {x}, merged).nonzero;
        return sink.put(begin, merged);
      }
      const auto n = x.front().numel();
      if (!zeros.defined() || zeros.numel() < n) zeros = at::zeros({n}, at::kFloat);
      const auto merged = weights::combine(zeros.narrow(0, 0, n), x, alpha)[0];
      nonzero += at::count_nonzero(merged).item<std::int64_t>();
      sink.put(begin, merged);
    });
  }
  return nonzero;
}

}  // namespace taugrid::merging
