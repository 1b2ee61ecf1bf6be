// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// An edit says which models are made of θ0, and in which function they are used. It is a value: an experiment
// makes it once, and from it follow the units that must be finished before (needs()), what its outputs cost
// (ledger::Tally::edited()), its weights (Edits) and its outputs (EditedOutputs).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace taugrid::study {

struct Study;

struct Edit {
  enum class Kind {
    start,     ///< θ0 itself
    joint,     ///< one model that was trained on all tasks
    terms,     ///< θ0 + Σ αₜτₜ, each vector with its coefficient (paper 1, section 2)
    sum,       ///< θ0 + α Σ τₜ, with one coefficient
    direction  ///< θ0 + αv, v [P] being merged of the vectors and held already
  };

  Kind kind = Kind::start;
  std::string regime = {};  ///< whose function and vectors these are; empty: θ0 in its own function
  std::vector<std::size_t> tasks = {};  ///< whose vectors are taken
  at::Tensor alpha = {};      ///< float64: of terms [K, |tasks|], of a sum or a direction [K]; K models
  at::Tensor direction = {};  ///< v [P], on the device; an edit that is only counted has none

  static Edit start() { return {}; }
  /// θ0 as the models of a regime have it: from the stages that the regime changes on.
  static Edit start(std::string regime) { return {Kind::start, std::move(regime)}; }
  static Edit joint(std::string regime) { return {Kind::joint, std::move(regime)}; }
  static Edit terms(std::string regime, std::vector<std::size_t> tasks, at::Tensor alpha) {
    return {Kind::terms, std::move(regime), std::move(tasks), std::move(alpha)};
  }
  /// θ0 + ατₜ for each α.
  static Edit single(std::string regime, std::size_t t, const std::vector<double>& alpha);
  /// θ0 + τₜ, a task's own model.
  static Edit fine_tuned(std::string regime, std::size_t t) { return single(std::move(regime), t, {1}); }
  /// θ0 + α Σ τₜ as terms, for each α: for few tasks.
  static Edit together(std::string regime, std::vector<std::size_t> tasks, const std::vector<double>& alpha);
  static Edit sum(std::string regime, std::vector<std::size_t> tasks, const std::vector<double>& alpha);
  static Edit along(std::string regime, std::vector<std::size_t> tasks, const std::vector<double>& alpha,
                    at::Tensor direction = {});
  /// θ0 + α Σ cₜτₜ of factors c [|tasks|], float64. A linear regime adds tangents that were computed once,
  /// and takes it as terms; any other goes along `direction`, which is that sum.
  static Edit weighted(std::string regime, std::vector<std::size_t> tasks, const at::Tensor& factors,
                       const std::vector<double>& alpha, at::Tensor direction = {});

  /// K, the number of models.
  std::int64_t models() const { return alpha.defined() ? alpha.size(0) : 1; }
  bool is_linear() const;

  /// Keys of the units that must be finished before its outputs on task b's points can be computed.
  std::vector<std::string> needs(const Study& study, std::size_t b) const;
};

}  // namespace taugrid::study
