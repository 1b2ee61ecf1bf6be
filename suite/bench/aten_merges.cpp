// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/bench/aten_merges.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

namespace taugrid::bench {

merging::HeldVectors held(const std::vector<at::Tensor>& vectors) {
  const auto length_of_all = vectors.front().numel();
  return {{{"all", {length_of_all}, {0, length_of_all}}}, vectors, at::Tensor()};
}

float kth_magnitude(const at::Tensor& x, std::int64_t k) {
  const auto magnitudes = x.abs();
  auto* begin = magnitudes.mutable_data_ptr<float>();
  std::nth_element(begin, begin + (k - 1), begin + x.numel(), std::greater<>());
  return begin[k - 1];
}

at::Tensor merged_by_aten(const std::string& method, const at::Tensor& x, const at::Tensor& cuts) {
  const auto kept = [&] { return at::where(x.abs().ge(cuts.unsqueeze(1)), x, 0); };
  if (method == "linear") return x.mean(0);
  if (method == "task_arithmetic") return x.sum(0);
  if (method == "top_k") return kept().sum(0) / static_cast<double>(x.size(0));
  if (method == "consensus_ta") {
    const auto sum = x.sum(0);
    return at::where(x.abs().gt(0.4 * (sum - x).abs()).sum(0).ge(2), sum, 0);
  }
  const auto y = kept(), sign = y.sum(0).sign();
  const auto agree = y.sign().eq(sign).logical_and(y.ne(0));
  return at::where(agree, y, 0).sum(0) / agree.sum(0).clamp_min(1);
}

}  // namespace taugrid::bench
