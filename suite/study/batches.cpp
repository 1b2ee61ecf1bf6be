// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/batches.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <vector>

#include "suite/study/settings.hpp"

namespace taugrid::study {

at::Tensor Batches::rows(std::int64_t step) {
  std::vector<at::Tensor> parts;
  auto at = step * batch_;
  for (auto left = batch_; left > 0;) {
    const auto& order = epoch(at / rows_);
    const auto from = at % rows_, count = std::min(left, rows_ - from);
    parts.push_back(order.narrow(0, from, count));
    at += count;
    left -= count;
  }
  return at::cat(parts);
}

const at::Tensor& Batches::epoch(std::int64_t number) {
  if (number != current_) {
    auto generator =
        at::make_generator<at::CPUGeneratorImpl>(seed_for(seed_, "epoch" + std::to_string(number)));
    order_ = at::randperm(rows_, generator, at::kLong);
    current_ = number;
  }
  return order_;
}

}  // namespace taugrid::study
