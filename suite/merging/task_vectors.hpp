// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a merge sees of the models: task vectors τ_t = θ_t − θ0, visited by stretches, and the names and
// shapes of the tensors that lie in them. Where they come from, and whether memory holds them, is not asked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/range.hpp"
#include "kernels/weights/stretches.hpp"

namespace taugrid::merging {

/// One tensor of a model; its numbers lie side by side in the flat vectors.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  Range range;
};

/// How many numbers the longest tensor has; 0 of none.
std::int64_t longest_of(const std::vector<NamedTensor>& tensors);

class TaskVectors {
 public:
  virtual ~TaskVectors() = default;

  virtual std::size_t count() const = 0;  ///< T
  /// Without gaps, in the order of their numbers.
  virtual const std::vector<NamedTensor>& tensors() const = 0;
  /// The numbers of all tensors: from 0 on, or a part of a vector (PartOfVectors).
  Range range() const {
    if (tensors().empty()) return {0, 0};
    const auto begin = tensors().front().range.begin;
    return {begin, tensors().back().range.end() - begin};
  }
  std::int64_t length() const { return range().count; }

  /// Stands for θ0 itself among the vectors of a visit.
  static constexpr std::size_t theta0 = static_cast<std::size_t>(-1);
  /// Numbers begin, begin + 1, … of the vectors asked for, one tensor each: float32, on the host, until the
  /// call ends.
  using Visitor = std::function<void(std::int64_t begin, std::span<const at::Tensor> stretches)>;
  /// Visits the numbers of `range` in order, in stretches that begin at range.begin plus multiples of `align`
  /// and, the last aside, are as long as multiples of it. Throws InputError where a vector cannot be read.
  void visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
             const Visitor& visitor) const {
    for (const auto t : which) visited_ += t == theta0 ? 0 : range.count;
    if (range.count > 0) do_visit(which, range, align, visitor);
  }
  using StretchVisitor = weights::StretchVisitor;
  /// As visit(), not of θ0, for kernels that subtract by themselves; `share`: of the numbers those that the
  /// visitor looks at. Throws InputError, naming the file, where not all was finite.
  void visit_stretches(const std::vector<std::size_t>& which, Range range, const StretchVisitor& visitor,
                       double share = 1) const {
    visited_ += std::llround(share * static_cast<double>(range.count)) * std::ssize(which);
    if (range.count > 0) do_visit_stretches(which, range, visitor, share);
  }
  /// How many vectors are read together faster than one after another: on files, since θ0 is read with them.
  virtual std::size_t side_by_side() const { return 1; }
  /// Whether vectors lead from θ0; else from 0, and are the models themselves.
  virtual bool has_start() const { return true; }
  /// 0, 1, …, T − 1.
  std::vector<std::size_t> all() const;
  /// How many numbers of vectors were gone through until now, here.
  std::int64_t visited() const { return visited_; }
  /// How often all vectors were.
  double passes() const {
    return static_cast<double>(visited_) / (static_cast<double>(count()) * static_cast<double>(length()));
  }

  /// Numbers of all vectors that are seen at once, about: they stay in the second cache, and a visit's own
  /// cost does not count. On files it has more of that, and the third cache will do.
  static constexpr std::int64_t in_cache = std::int64_t{1} << 18, from_files = std::int64_t{1} << 19;
  /// Numbers of a stretch of one of `vectors`, a multiple of `align`.
  static std::int64_t stretch(std::size_t vectors, std::int64_t align, std::int64_t together = in_cache);

 protected:
  virtual void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                        const Visitor& visitor) const = 0;
  virtual void do_visit_stretches(const std::vector<std::size_t>& which, Range range,
                                  const StretchVisitor& visitor, double share) const;
  /// The same for a kernel that goes through cache by itself: so long that nothing else counts.
  static constexpr std::int64_t long_stretch = std::int64_t{1} << 19;
  static constexpr std::size_t side_by_side_on_files = 8;
  /// Sees τ_t themselves: what such a visitor says is not asked, since it subtracts nothing.
  static Visitor of_tau(const StretchVisitor& visitor) {
    return [&visitor](std::int64_t begin, std::span<const at::Tensor> tau) { visitor(begin, {tau}); };
  }

 private:
  mutable std::int64_t visited_ = 0;
};

/// Vectors in memory, [P] each.
class HeldVectors final : public TaskVectors {
 public:
  HeldVectors(std::vector<NamedTensor> tensors, std::vector<at::Tensor> vectors, at::Tensor theta0_vector);
  std::size_t count() const override { return vectors_.size(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override;
  void do_visit_stretches(const std::vector<std::size_t>& which, Range range, const StretchVisitor& visitor,
                          double share) const override;
  void cut(const std::vector<std::size_t>& which, Range range, std::int64_t size,
           const Visitor& visitor) const;

  std::vector<NamedTensor> tensors_;
  std::vector<at::Tensor> vectors_;
  at::Tensor start_;
};

/// Some tensors, side by side, of vectors, which outlive it. Numbers keep their places.
class PartOfVectors final : public TaskVectors {
 public:
  PartOfVectors(const TaskVectors& whole, std::vector<NamedTensor> tensors)
      : whole_(whole), tensors_(std::move(tensors)) {}
  std::size_t count() const override { return whole_.count(); }
  const std::vector<NamedTensor>& tensors() const override { return tensors_; }
  std::size_t side_by_side() const override { return whole_.side_by_side(); }
  bool has_start() const override { return whole_.has_start(); }

 private:
  void do_visit(const std::vector<std::size_t>& which, Range range, std::int64_t align,
                const Visitor& visitor) const override {
    whole_.visit(which, range, align, visitor);
  }
  void do_visit_stretches(const std::vector<std::size_t>& which, Range range, const StretchVisitor& visitor,
                          double share) const override {
    whole_.visit_stretches(which, range, visitor, share);
  }

  const TaskVectors& whole_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace taugrid::merging
