// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/models/packing.hpp"

#include <ATen/ATen.h>

namespace taugrid::models {

autodiff::Packing packing_of(const Batch& batch) {
  if (!batch.held().is_cpu() || batch.lengths.ge(batch.tokens()).all().item<bool>()) return {};
  const auto lengths = batch.lengths.contiguous();
  const auto* first = lengths.const_data_ptr<std::int64_t>();
  return {{first, first + lengths.numel()}, batch.tokens()};
}

}  // namespace taugrid::models
