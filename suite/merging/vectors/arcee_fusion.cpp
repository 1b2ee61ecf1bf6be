// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Arcee Fusion, tensor by tensor (mergekit): of one model the numbers that stand out. With rows along the
// last dimension, p and q the softmax of a row of θ and of θ0, to which ε = 1e-8 is added, a number's
// importance is
//
//   s = |τ| · Σ p log(p/q), the sum over its row,
//
// and τ stays where s ≥ s₀.₅ + 1.5·(s₀.₇₅ − s₀.₂₅), of the tensor's quantiles: s_q is the ⌊q(n − 1)⌋-th, from
// 0, of its n importances in ascending order. mergekit estimates quantiles of more than a million numbers by
// a random sample. Divergences of fine-tuned models are so small that float32 leaves little of them: they are
// computed in double.
#include <ATen/ATen.h>

#include <functional>

#include "kernels/weights/merging.hpp"
#include "suite/error.hpp"
#include "suite/merging/table.hpp"

namespace taugrid::merging {
namespace {

class ArceeFusion final : public VectorMethod {
 public:
  void check(const std::string& what, const std::vector<double>& weights) const override {
    if (weights.size() != 1)
      throw InputError(what + ": arcee_fusion takes one model beside the base, and there are " +
                       std::to_string(weights.size()));
    require_alike(what, "arcee_fusion", weights);
  }
  /// Two that find the quantiles, and one that merges. Each sees whole rows, in some eight float64 copies.
  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t) const override {
    double row = 0;
    for (const auto& tensor : tensors)
      row = std::max(row, tensor.shape.empty() ? 1.0 : static_cast<double>(tensor.shape.back()));
    const double searched = weights::KthMagnitude::most_bytes(longest_of(tensors));
    return {.passes = 3, .bytes = 8 * sizeof(double) * row + 3 * searched, .at_once = row};
  }

 protected:
  std::int64_t run(const TaskVectors& vectors, const std::vector<double>&, const Sink& sink,
                   const Team&) const override {
    std::int64_t nonzero = 0;
    for (const auto& tensor : vectors.tensors()) {
      if (tensor.range.count == 0) continue;
      const double least = threshold(vectors, tensor);
      each(vectors, tensor, [&](std::int64_t begin, const at::Tensor& tau, const at::Tensor& importance) {
        const auto merged = at::where(importance.to(at::kDouble) >= least, tau, 0.0F);
        nonzero += at::count_nonzero(merged).item<std::int64_t>();
        sink.put(begin, merged);
      });
    }
    return nonzero;
  }

 private:
  using See = std::function<void(std::int64_t begin, const at::Tensor& tau, const at::Tensor& importance)>;

  static void each(const TaskVectors& vectors, const NamedTensor& tensor, const See& see) {
    const auto row = tensor.shape.empty() ? 1 : tensor.shape.back();
    vectors.visit({0, TaskVectors::theta0}, tensor.range, row,
                  [&](std::int64_t begin, std::span<const at::Tensor> x) {
                    see(begin, x[0], importance(x[0].view({-1, row}), x[1].view({-1, row})).view({-1}));
                  });
  }

  /// s [rows, row].
  static at::Tensor importance(const at::Tensor& tau, const at::Tensor& start) {
    constexpr double eps = 1e-8;
    const auto from = start.to(at::kDouble);
    const auto p = (from + tau).softmax(-1) + eps, q = from.softmax(-1) + eps;
    const auto divergence = (p * (p / q).log()).sum(-1, /*keepdim=*/true).clamp_min(0);  // rounding is below
    return (tau.abs() * divergence).to(at::kFloat);
  }

  static double threshold(const TaskVectors& vectors, const NamedTensor& tensor) {
    const auto count = tensor.range.count;
    std::vector<weights::KthMagnitude> quantiles;
    for (const double share : {0.25, 0.5, 0.75})
      quantiles.emplace_back(count - static_cast<std::int64_t>(share * static_cast<double>(count - 1)),
                             count);
    std::vector<weights::KthMagnitude*> left;
    for (auto& quantile : quantiles) left.push_back(&quantile);
    while (!left.empty()) {
      each(vectors, tensor, [&](std::int64_t, const at::Tensor&, const at::Tensor& importance) {
        for (auto* quantile : left) quantile->add(importance);
      });
      std::erase_if(left, [](auto* quantile) { return !quantile->next(); });
    }
    const auto value = [&](std::size_t i) { return static_cast<double>(quantiles[i].value()); };
    return value(1) + 1.5 * (value(2) - value(0));
  }
};

std::shared_ptr<const VectorMethod> make_arcee_fusion(config::Section) {
  return std::make_shared<ArceeFusion>();
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    arcee_fusion, 75, make_arcee_fusion, nullptr,
    "Arcee Fusion (mergekit): the numbers of one model that stand out, by how far they and their "
    "rows' softmax moved",
    false)
