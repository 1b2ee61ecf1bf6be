// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/points.hpp"

#include <ATen/ATen.h>

namespace taugrid::study {

at::Tensor Points::numbers(std::int64_t begin, std::int64_t count) {
  return at::arange(begin, begin + count, at::kLong);
}

at::Tensor Points::by_length(std::int64_t begin, std::int64_t count) const {
  if (!lengths_.defined()) return {};
  return std::get<1>(lengths_.narrow(0, begin, count).sort(true, 0, false)).add_(begin);  // stable, ascending
}

}  // namespace taugrid::study
