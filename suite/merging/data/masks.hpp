// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Localisation (Localize-and-Stitch: He et al. 2024, section 3.1): the mask γ in {0, 1}^d of the numbers of
// a task vector that carry its task, found by learning scores S with labelled points of the task:
//   minimise CE(θ0 + σ(S) ⊙ τ) + ℓ‖σ(S)‖₁,  γ = round σ(S).
// S begins at ±`bias`, + on the largest magnitudes of τ, and takes steps over all points at once:
//   S ← S − σ'(S) ⊙ (r·τ ⊙ ∇L − ℓ sign S)   as the authors' code has it (regulariser = "signed": S moves
//   away from 0 on both sides), sign 0 = −1, or + ℓ in place of − ℓ sign S (regulariser = "l1").
// A linear regime's L is that of f(x; θ0) + J(x)(σ(S) ⊙ τ). For a basis τ of several tasks CE is the mean of
// the tasks' own, each on its own points.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "suite/merging/data/data_method.hpp"

namespace taugrid::merging {

struct MaskSettings {
  Split inputs;
  std::int64_t points_a_class, points, steps, chunk;
  double learning_rate, l1, bias, start_density, checkpoint_seconds;
  bool signed_regulariser;
  std::vector<std::string> tensors;  ///< parts of their names; none: all
};

class Masks {
 public:
  Masks(const Study& study, MaskSettings settings) : study_(study), settings_(std::move(settings)) {}

  const MaskSettings& settings() const { return settings_; }
  /// Adds what masks take that are learnt on the points of these tasks, beside the vectors.
  void count(Tally& tally, const std::string& regime, const std::vector<std::size_t>& tasks) const;
  /// How many numbers rows and loss of task t's own mask are.
  std::int64_t published(std::size_t t) const { return points(t) + settings_.steps; }
  /// Learns a model's mask: `mask` uint8 [⌈P/8⌉], γ as metrics::packed_bits packs it; loss [steps], before
  /// each step; rows int64 [n] of the split, task after task; passes [3], of inputs forwards and backwards,
  /// and over τ. A killed run goes on from its scratch folder.
  store::TensorFile learnt(const ModelToMerge& model, schedule::UnitContext& context) const;
  /// How many numbers of θ masks are of.
  std::int64_t numbers(const std::string& regime) const;

 private:
  std::int64_t points(std::size_t t) const;
  /// int64 [n]: as many of each class as can be, those first that a permutation by seed has first.
  at::Tensor rows(std::size_t t) const;
  std::vector<Segment> segments(const std::string& regime) const;
  /// Adds to `passes` those that it takes over τ.
  at::Tensor first_scores(const at::Tensor& tau, const std::vector<Segment>& segments,
                          std::int64_t& passes) const;
  schedule::Rehearsal rehearse(const std::string& regime, std::int64_t n) const;

  const Study& study_;
  MaskSettings settings_;
};

/// Reads the settings of masks of [merging.localize_stitch], or of a section that stands for it.
MaskSettings read_masks(config::Section& parameters);

}  // namespace taugrid::merging
