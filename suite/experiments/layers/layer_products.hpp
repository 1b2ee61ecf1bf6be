// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One task's points pass through every model that a pair with this task asks for, a batch at a time: θ0, the
// task's own model and its partners' once, and each pair's mixed models θ_α = αθᵢ + (1−α)θⱼ. For each λ then
// the edits θ0 + 2λτ of the same tasks, and each pair's sum θ0 + λ(τᵢ + τⱼ); and θ0 ± λτ of the task's own
// vector. Layers are compared as they are made; what is kept of a point are inner products
// (kernels/metrics/linearity.hpp). Of features, memory holds one pass and one batch's of the single models
// and of θ0, whatever the number of points and of λs; beside them, a point's inner products, pair_bytes().
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "suite/experiments/experiment.hpp"
#include "suite/ledger/tally.hpp"
#include "suite/study/layers.hpp"

namespace taugrid::experiments {

class LayerProducts {
 public:
  /// Takes this regime's models: a linear one's layers are linearised, f(θ0) + J(x)τ each. `points` a task,
  /// `batch` of them at once. The study and the layers outlive this object.
  LayerProducts(const Study& study, const study::Layers& layers, std::string regime,
                std::vector<double> alpha, std::vector<double> lambda, std::int64_t points,
                std::int64_t batch);

  /// Whether there is something to compute on task t's points.
  bool sees(std::size_t t) const { return !lambda_.empty() || !study_.tasks.pairs_of(t).empty(); }

  /// The tasks whose models are seen on task t's points: t, and its partners in the order of the pairs.
  std::vector<std::size_t> models_of(std::size_t t) const;

  /// What is found on task t's n points, n first, the second dimension being all of a feature, and the class
  /// token where there is one: "mixed/PAIR" [n,V,L,A,4], "frame/PAIR" [n,V,L,3,3], as metrics::linearity()
  /// takes them; of sums by λ "sum/PAIR" [n,V,L,Λ,4] and "sum_frame/PAIR" [n,V,L,Λ,3,3]; "negation_frame"
  /// [n,V,L,Λ,3,3] of θ0 + λτ, θ0 − λτ and θ0, where θ0 is the mixed model. "passes" and "edit_passes",
  /// int64: how many fine-tuned and mixed models each point went through, and how many edits by λ. What is
  /// done of a unit that is stopped or killed is kept.
  store::TensorFile compute(std::size_t t, schedule::UnitContext& context) const;
  /// Bytes of one pair's tensors of compute(), and of those of negations.
  double pair_bytes(std::size_t t) const;
  double negation_bytes(std::size_t t) const;

  Tally tally(std::size_t t) const;

 private:
  using Features = std::vector<at::Tensor>;  // a chosen layer each, [n, numbers]
  struct Seen;                               // one batch's single models

  double row_bytes(std::size_t t) const;  // of one number of each point, layer and variant
  std::int64_t variants() const { return layers_.has_class_token() ? 2 : 1; }
  /// One pass, an input; of the model's own share of it this part is done.
  double flops(double part = 1) const;
  /// With which stage a pass begins: what lies below is frozen, is no layer that is compared, and runs once.
  int first_stage() const;
  /// f − f0 of the layers of θ0 + cτₖ.
  Features single(std::size_t k, double c, const models::Batch& batch, Seen& seen) const;
  /// f − f0 of the layers of a model, seen one by one: the state's, or in a linear regime that of τ.
  void pass(const models::State& state, const at::Tensor& tau, const models::Batch& batch, Seen& seen,
            const study::Layers::See& see) const;
  /// Inner products of layer l of a mixed model, f − f0 being c, with those of what it is mixed of, a and b,
  /// and θ0's f0: [n,V,4].
  at::Tensor mixed_products(std::size_t l, const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& start) const;
  /// Inner products of a, b and f0 of layer l, [n,V,3,3].
  at::Tensor frame_products(std::size_t l, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& start) const;
  /// Fills `frame` of a pair's two seen models [m,V,L,3,3] and `mixed` of those that the rows [K,2] mix
  /// [m,V,L,K,4].
  void mix(std::size_t p, const at::Tensor& mixing, const models::Batch& batch, Seen& seen, at::Tensor frame,
           at::Tensor mixed) const;
  void frame_of(const Features& a, const Features& b, const Seen& seen, at::Tensor frame) const;
  /// The models that are seen on task t's points, of which memory holds one stage each.
  struct Models;
  Models models_by_stages(std::size_t t, const comm::Communicator& group) const;
  /// All that compute() finds of a batch; `part(name)` are its rows.
  void compare_by_stages(std::size_t t, const Models& models, const models::Batch& batch,
                         const std::function<at::Tensor(const std::string&)>& part,
                         const std::function<void(int)>& before) const;
  schedule::Rehearsal rehearse(std::int64_t n) const;

  const Study& study_;
  const study::Layers& layers_;
  std::string regime_;
  std::vector<double> alpha_, lambda_;
  std::int64_t points_, batch_;
  bool linear_;
};

}  // namespace taugrid::experiments
