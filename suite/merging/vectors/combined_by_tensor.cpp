// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/vectors/combined_by_tensor.hpp"

#include <ATen/ATen.h>

#include "kernels/weights/merging.hpp"
#include "kernels/weights/weights.hpp"

namespace taugrid::merging {

std::int64_t CombinedByTensor::run(const TaskVectors& vectors, const std::vector<double>& weights,
                                   const Sink& sink, const Team&) const {
  auto which = vectors.all();
  const bool adds_start = of_models() && vectors.has_start();  // else the vectors are the models
  if (adds_start) which.push_back(TaskVectors::theta0);
  std::int64_t nonzero = 0;
  at::Tensor zeros;
  for (const auto& tensor : vectors.tensors()) {
    const auto range = tensor.range;
    weights::GramSum sum(static_cast<std::int64_t>(which.size()), range.count);
    vectors.visit(which, range, sum.step(), [&](std::int64_t begin, std::span<const at::Tensor> x) {
      sum.add(begin - range.begin, {x});
    });
    const auto gram = sum.gram();
    const auto alpha = (adds_start ? factors_of_models(gram, weights) : factors(gram, weights)).view({1, -1});
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

at::Tensor CombinedByTensor::factors_of_models(const at::Tensor& gram,
                                               const std::vector<double>& weights) const {
  const auto count = gram.size(0) - 1;
  const auto with_start = gram[count].narrow(0, 0, count);  // ⟨θ0, τ_t⟩
  // ⟨θ0 + τ_s, θ0 + τ_t⟩; and Σ f θ − θ0 has Σ f − 1 of θ0.
  const auto f = factors(gram.narrow(0, 0, count).narrow(1, 0, count) + with_start + with_start.unsqueeze(1) +
                             gram[count][count],
                         weights);
  return at::cat({f, (f.sum() - 1).view({1})});
}

bool read_of_models(config::Section& parameters, const config::Meaning& meaning, bool fallback) {
  return parameters.word("of", meaning, fallback ? "models" : "vectors", {"models", "vectors"}) == "models";
}

}  // namespace taugrid::merging
