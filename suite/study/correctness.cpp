// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/correctness.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/metrics/metrics.hpp"

namespace taugrid::study {

Outcome outcome(const models::Readout& readout, const at::Tensor& logits, const at::Tensor& labels,
                std::int64_t points) {
  const at::NoGradGuard no_grad;
  const auto right = readout.correct(logits, labels);
  const auto bits = metrics::packed_bits(right);
  return {right.sum().to(at::kDouble).div_(right.size(0)),
          at::constant_pad_nd(bits, {0, bytes_of_bits(points) - bits.size(0)})};
}

at::Tensor mean_loss(const models::Readout& readout, const at::Tensor& logits, const at::Tensor& labels) {
  const at::NoGradGuard no_grad;
  const auto sum = readout.reads_places() ? readout.loss(logits.to(at::kDouble), labels)
                                          : metrics::cross_entropy_sum(logits, labels);
  return sum / readout.loss_items(labels);
}

}  // namespace taugrid::study
