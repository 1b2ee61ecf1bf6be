// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Kernels of model merging on stretches of flat task vectors. A number of the result depends on the numbers
// at its own place alone, so that the stretches may be cut and shared out at will.
//
// Stretches are one-dimensional, contiguous, float32 and on the host, and of equal length; anything else is
// std::invalid_argument. Kokkos must be initialised.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/range.hpp"
#include "kernels/weights/stretches.hpp"

namespace taugrid::weights {

/// Finds the k-th largest magnitude of a vector without sorting it, by the magnitudes' bits, whose order is
/// theirs (IEEE 754). Of a long vector a first pass looks at a sample, which says about where it lies, and
/// the second counts what is above that and keeps what is inside. Where a sample tells too little (short
/// vectors, many equal numbers), two histograms of the bits take their place; the second is of one bin of the
/// first, or, where that has few numbers, these themselves. Exact, whatever the numbers; NaN counts as larger
/// than all.
///
///   KthMagnitude kth(k, length);
///   do { for each stretch, in any order: kth.add(stretch); } while (kth.next());
///
/// A fresh search that is assigned to a finished one goes on in the memory which that had.
class KthMagnitude {
 public:
  /// k from 1 to the vector's length.
  KthMagnitude(std::int64_t k, std::int64_t length);
  /// τ's numbers, or those of θ, from which those of `start` are subtracted.
  void add(const at::Tensor& stretch, const at::Tensor& start = {});
  /// Several holders of a vector's parts: what each has counted is summed over them, number by number, and
  /// what it has collected is joined.
  struct Holders {
    std::function<std::vector<std::int64_t>(const std::vector<std::int64_t>&)> sums;
    std::function<std::vector<float>(const std::vector<float>&)> joined;
  };
  /// Before next(), where each holder has added its own part of the vector: from then on all are as if each
  /// had added all of it.
  void combine(const Holders& holders);
  /// Ends a pass over the whole vector; whether it takes another. \throws std::invalid_argument where the
  /// vector has less than k numbers.
  bool next();
  /// The share of the vector's numbers that this pass looks at.
  double share() const;
  /// The share of the first pass over a vector of this length.
  static double first_share(std::int64_t length);
  /// Memory that the search of a vector of this length takes at most, unless magnitudes crowd in one bin:
  /// then 8 MiB.
  static double most_bytes(std::int64_t length);

  float value() const { return value_; }         ///< the k-th largest |x|
  std::int64_t above() const { return above_; }  ///< numbers of larger magnitude: less than k
  std::int64_t equal() const { return equal_; }  ///< numbers of this magnitude: above + equal ≥ k

 private:
  enum class Pass { sample, bracket, leading, trailing };
  void begin_histograms();
  void count(const at::Tensor& stretch);
  bool choose_bracket();
  std::uint32_t choose_bin();
  float choose_inside();
  std::int64_t k_, length_, every_ = 0, above_ = 0, equal_ = 0;
  std::uint32_t bin_ = 0, low_ = 0, high_ = 0;
  Pass pass_;
  float value_ = 0;
  std::vector<std::uint64_t> counts_;
  std::vector<float> inside_;  // magnitudes whose bits are from low_ to below high_
};

/// The place in the stretch of the n-th number (from 1) of this magnitude. Where it has fewer: −1, and n is
/// reduced by those that it has.
std::int64_t find_magnitude(const at::Tensor& stretch, float magnitude, std::int64_t& n);

/// DARE: number i of vector t stays where a draw by (seed, t, i) says so, with probability `density`
/// (Yu et al. 2024; their drop rate p is 1 − density).
struct Drop {
  std::uint64_t seed = 0;
  double density = 1;
  std::vector<float> scale = {1};      ///< times which a number that stays counts: of all vectors, or [T]
  std::vector<double> densities = {};  ///< [T], in place of `density`; empty: that one for all vectors
};

/// out = the stretch of vector t that begins at number `begin`, dropped.
void drop(const Drop& rule, std::int64_t t, std::int64_t begin, const at::Tensor& stretch, at::Tensor& out);

/// As drop(), where each number has its own probability [n], float64, above 0, in place of the rule's
/// density; one that stays counts once, or 1/probability times.
void drop_each(const Drop& rule, std::int64_t t, std::int64_t begin, const at::Tensor& stretch,
               const at::Tensor& probability, bool rescales, at::Tensor& out);

/// Σ|x| of a vector whose stretches come in order, in float64: bitwise the same however it is cut.
class MagnitudeSum {
 public:
  void add(const at::Tensor& stretch);
  double sum() const;

 private:
  std::array<double, 16> parts_ = {};  // of the numbers whose place has this remainder
  std::int64_t place_ = 0;
};

/// What trimming leaves of a vector: magnitudes above `value`, and those equal to it before place `limit`.
struct Cut {
  float value = 0;
  std::int64_t limit = std::numeric_limits<std::int64_t>::max();
};

/// How T numbers x_t become one: each is dropped, trimmed and weighted, x_t ← w_t·trim(drop(τ_t)), where
/// trimming leaves what `cut` does, but for what `outliers` would; then
/// γ = sign(Σ x_t) is elected, and those of another sign count no more; their sum is divided; and it stays
/// where enough tasks claim the place.
struct MergeRule {
  enum class Vote {
    none,      ///< all count
    positive,  ///< a sum of zero elects +
    negative,  ///< or −
    nobody     ///< or nothing
  };
  enum class Divide {
    number,  ///< by `divisor`
    voters   ///< by the weights of those not zero that count (TIES: disjoint mean)
  };

  std::vector<float> weight;  ///< [T]
  std::optional<Drop> drop = {};
  std::vector<Cut> cut = {};       ///< [T], or empty: nothing is trimmed
  std::vector<Cut> outliers = {};  ///< [T], or empty: there are none (Davari and Belilovsky 2023)
  Vote vote = Vote::none;
  Divide divide = Divide::number;
  float divisor = 1;
  /// Whether each product w_t·x_t is rounded before it is added, as mergekit's task arithmetic has it; else
  /// only the sum is. Where nothing is dropped, trimmed or elected.
  bool rounds_products = false;
  /// λ [T], or empty. The result τ stays where at least `claims` tasks have |τ_t| > λ_t·|τ − τ_t| (TALL
  /// masks: Wang et al. 2024, equation 4; consensus: equation 6).
  std::vector<float> claim = {};
  std::int64_t claims = 2;
};

/// The part of a stretch that has all of its undecided places.
struct Undecided {
  Range range = {};          ///< count 0: there are none
  std::int64_t nonzero = 0;  ///< of the result there
};

struct MergeCount {
  std::int64_t nonzero = 0;    ///< of the result
  std::int64_t undecided = 0;  ///< places whose sum is zero although some x_t is not
  std::int64_t balance = 0;    ///< places that elected + less those that elected −, the undecided left out
  bool finite = true;          ///< whether all θ_t − θ0 are, where these were subtracted
  Undecided part = {};
};

/// out [n] from T stretches that begin at number `begin`. One pass over memory: (T + 1)·4 bytes a place, and
/// 4 of θ0.
MergeCount merge(const MergeRule& rule, std::int64_t begin, const Stretches& tau, at::Tensor& out);

}  // namespace taugrid::weights
