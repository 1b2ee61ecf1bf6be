// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace taugrid::study {

/// Rows of one step's batch: epochs of seeded permutations, laid end to end; any step can be found again.
class Batches {
 public:
  Batches(std::int64_t rows, std::int64_t batch, std::uint64_t seed)
      : rows_(rows), batch_(batch), seed_(seed) {}
  at::Tensor rows(std::int64_t step);  ///< int64 [batch]
  std::uint64_t seed() const { return seed_; }

 private:
  const at::Tensor& epoch(std::int64_t number);
  std::int64_t rows_, batch_, current_ = -1;
  std::uint64_t seed_;
  at::Tensor order_;
};

}  // namespace taugrid::study
