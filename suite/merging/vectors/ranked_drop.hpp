// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// MAGPRUNE, the dropping of DELLA (Deep et al. 2024): in each row of a tensor, numbers of larger
// magnitude stay more probably. The number of rank r among the n of its row, from 0, the smallest, to n − 1,
// stays with probability
//
//   p = density + epsilon·(2r/(n − 1) − 1),
//
// and counts 1/p times, or once. A row is what has one first index; a tensor of one dimension is one row.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "suite/merging/task_vectors.hpp"

namespace taugrid::merging {

/// A number that all vectors have, or one of each.
struct PerVector {
  double all = 1;
  std::vector<double> each = {};  ///< [T], in place of `all`; empty: that one

  double of(std::size_t t) const { return each.empty() ? all : each[t]; }
  /// One value, or one a vector.
  void set(const std::vector<double>& values) {
    all = values.front();
    each = values.size() > 1 ? values : std::vector<double>{};
  }
};

struct RankedDrop {
  PerVector density = {}, epsilon = {};
  std::uint64_t seed = 0;
  bool rescales = true;  ///< by 1/p
};

/// Vectors as they are after dropping, which is drawn again at each visit. Whole rows are visited, whatever
/// alignment is asked for: it must be 1.
class RankDropped final : public TaskVectors {
 public:
  /// Both outlive it.
  RankDropped(const TaskVectors& whole, const RankedDrop& rule) : whole_(whole), rule_(rule) {}

  std::size_t count() const override { return whole_.count(); }
  const std::vector<NamedTensor>& tensors() const override { return whole_.tensors(); }

  /// Calls see(begin, stretches, before) with these vectors as they are after dropping, and before.
  using See = std::function<void(std::int64_t begin, std::span<const at::Tensor> kept,
                                 std::span<const at::Tensor> before)>;
  void see(const std::vector<std::size_t>& which, Range range, const See& see) const;

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override;
  /// Whole rows.
  at::Tensor dropped(std::size_t t, std::int64_t begin, const at::Tensor& x, std::int64_t row) const;

  const TaskVectors& whole_;
  const RankedDrop& rule_;
};

}  // namespace taugrid::merging
