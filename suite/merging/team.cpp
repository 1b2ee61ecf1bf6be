// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/team.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace taugrid::merging {

std::vector<std::int64_t> Team::sums(const std::vector<std::int64_t>& mine) const {
  if (group_ == nullptr) return mine;
  auto all = at::tensor(mine, at::kLong);
  group_->all_reduce_sum(all, "counts of a merge");
  const auto* values = all.const_data_ptr<std::int64_t>();
  return {values, values + all.numel()};
}

std::vector<std::int64_t> Team::joined(const std::vector<std::int64_t>& mine) const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size()));
  counts[static_cast<std::size_t>(rank())] = std::ssize(mine);
  counts = sums(counts);
  const auto until = [&](int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
  };
  std::vector<std::int64_t> all(static_cast<std::size_t>(until(size())));
  std::copy(mine.begin(), mine.end(), all.begin() + until(rank()));
  return sums(all);
}

std::vector<float> Team::joined(const std::vector<float>& mine) const {
  if (group_ == nullptr) return mine;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size()));
  counts[static_cast<std::size_t>(rank())] = std::ssize(mine);
  counts = sums(counts);
  const auto longest = *std::max_element(counts.begin(), counts.end());
  std::vector<float> all;
  all.reserve(static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
  const auto padded = at::zeros({longest}, at::kFloat);
  std::copy(mine.begin(), mine.end(), padded.mutable_data_ptr<float>());
  const auto gathered_all = gathered(padded);
  const auto* numbers = gathered_all.const_data_ptr<float>();
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto* begin = numbers + static_cast<std::int64_t>(r) * longest;
    all.insert(all.end(), begin, begin + counts[r]);
  }
  return all;
}

}  // namespace taugrid::merging
