// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Methods in which a number of τ depends on the vectors' numbers at its own place, and on a cut of each
// vector, the magnitude from which its numbers count, and what it is rescaled by. With x_t =
// w_t·trim(s_t·drop(τ_t)), s_t 1, 1/density or ‖τ_t‖₁/‖drop(τ_t)‖₁:
//
//   linear, task_arithmetic, dare_linear,
//   della_linear, top_k, breadcrumbs           τ = Σ x_t, divided
//   ties, dare_ties, della, breadcrumbs_ties   τ = Σ over x_t of sign γ, divided;  γ = sign(Σ x_t)
//   consensus_ta, consensus_ties               τ of these where enough tasks have |τ_t| > λ|τ − τ_t|
//
// trim() leaves the largest magnitudes; of breadcrumbs the largest but for the outliers, which are the share
// gamma of all that is above them (Davari and Belilovsky 2023: masks of both tails).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/weights/merging.hpp"
#include "suite/config/config.hpp"
#include "suite/merging/vector_method.hpp"
#include "suite/merging/vectors/ranked_drop.hpp"

namespace taugrid::merging {

struct Trim {
  PerVector density = {};
  /// The share of the largest numbers, the outliers, which do not stay either; none: they stay.
  std::optional<PerVector> gamma = {};
  bool by_tensor = false;
  std::string cut = "at_least";

  /// Whether numbers of some vector are cut.
  bool cuts() const {
    return density.each.empty()
               ? density.all < 1
               : std::any_of(density.each.begin(), density.each.end(), [](double d) { return d < 1; });
  }
};

enum class Divisor { one, sum_of_weights, vectors, voters };

class Elementwise final : public VectorMethod {
 public:
  weights::MergeRule rule = {};
  Trim trim = {};
  Divisor divisor = Divisor::one;
  bool majority = false;    ///< an undecided place takes the sign of most others
  bool keeps_norm = false;  ///< s_t is the ratio of norms, of the vector or of each tensor as trimming is
  std::vector<double> claim = {};  ///< λ of the claims: none, one for all vectors, or one a vector
  bool mean_of_models = false;     ///< Σ w θ / Σ w, whatever θ0 is
  bool trims = false;              ///< whether a density is that of trimming
  bool rescales = false;           ///< what is dropped by 1/density, of each vector
  /// Where numbers are those of aligned matrices (aligned.hpp): names of tensors that stay as they are.
  std::optional<std::vector<std::string>> knots = {};
  /// Drops by rank. They take the place of rule.drop, of which the scale alone is used then.
  std::optional<RankedDrop> ranked = {};

  bool needs_start() const override { return !mean_of_models; }
  bool spans_tensors() const override { return majority || (!trim.by_tensor && (trim.cuts() || keeps_norm)); }

  bool is_number_by_number() const override {
    return shares_places() && !majority && !trim.cuts() && !keeps_norm;
  }
  bool shares_places() const override { return is_shared(); }

  std::optional<double> factor(std::size_t count) const override;
  std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                           const std::vector<double>& values) const override;
  /// Norms take a pass. Each trimming takes two passes to find the cut, the first of which looks at a sample
  /// of what is long, and two more that of outliers; an exact one a third where the cut lies among equal
  /// magnitudes, and a majority for minus another merge around places that are undecided.
  MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t count) const override;

  void check_values(const std::string& what, std::size_t count) const override;
  void check(const std::string& what, const std::vector<double>& w) const override;
  RecipeNote recipe_note(const std::string& regime, const std::vector<std::size_t>& tasks) const override;

 protected:
  /// Rows that several ranks have a part of would be sorted by each of them, and matrices aligned.
  bool is_shared() const override { return !ranked && !knots; }
  std::int64_t run(const TaskVectors& whole, const std::vector<double>& w, const Sink& sink,
                   const Team& all_ranks) const override;

 private:
  /// s_t [T]; 1 where nothing stays. Each vector's is one rank's, and so are cuts.
  std::vector<float> scales_of(const TaskVectors& vectors, Range range, const Team& team) const;
  /// How many of a vector's largest numbers a cut leaves; none: all.
  using Rank = std::optional<std::int64_t>;
  /// What trimming leaves, with the outliers, and these alone.
  struct Ranks {
    Rank kept, outliers;
  };
  Ranks ranks_of(std::size_t t, std::int64_t count) const;
  std::vector<weights::Cut> cuts_of(const TaskVectors& vectors, Range range,
                                    const std::optional<weights::Drop>& drop, Rank Ranks::*rank,
                                    const Team& team) const;
  /// The ranges that have cuts and norms of their own.
  std::vector<Range> ranges_of(const std::vector<NamedTensor>& tensors) const;
};

/// Reads the parameters of a method of TALL masks, on what task arithmetic or TIES merges, but for λ: whoever
/// makes it sets `claim`. Throws InputError.
Elementwise read_claims(config::Section& parameters, bool of_ties);

}  // namespace taugrid::merging
