// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/correctness.hpp"

#include <ATen/ATen.h>

#include "kernels/metrics/metrics.hpp"

namespace taugrid::study {

Outcome outcome(const at::Tensor& logits, const at::Tensor& labels, std::int64_t points) {
  const auto right = metrics::correctness(logits, labels);
  const auto bits = metrics::packed_bits(right);
  return {right.sum().to(at::kDouble).div_(right.size(0)),
          at::constant_pad_nd(bits, {0, bytes_of_bits(points) - bits.size(0)})};
}

}  // namespace taugrid::study
