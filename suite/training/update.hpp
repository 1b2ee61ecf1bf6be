// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One training step's computation, wherever its batch came from: loss, gradient, sums over ranks, clipping,
// the optimiser.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "suite/training/adamw.hpp"
#include "suite/training/factors.hpp"
#include "suite/training/loss.hpp"
#include "suite/training/training.hpp"

namespace taugrid::training {

class Update {
 public:
  /// Trains a model that is at `begin` when training starts; θ0 is the study's. A regime of low rank draws
  /// its factors from `seed`. The other arguments outlive this object.
  Update(const study::Study& study, const study::Regime& regime, const Training& training,
         const models::State& begin, const comm::Communicator& group, std::uint64_t seed = 0);

  /// One step at this learning rate; the loss is that before the update, on the device. Several ranks sum
  /// their gradients in stretches, each beside the rest of the backward pass; where samples mix, also what
  /// they are normalised by.
  LossValue operator()(const std::vector<Term>& terms, double learning_rate);

  const models::State& state() const { return state_; }
  /// What a regime of low rank trains.
  const std::optional<Factors>& factors() const { return factors_; }

  /// What a step did, and when, in seconds on the steady clock.
  struct Span {
    std::string what;
    double begin, end;
  };
  /// Notes the spans of all further steps there.
  void observe(std::vector<Span>& spans) { spans_ = &spans; }
  /// Notes a span of the step that has begun, from the last noted to now.
  void note(const char* what);
  void begin_step();

  /// The state that the next step depends on, as it lies in memory: training goes on from what is copied into
  /// it.
  void save(store::TensorFile& file) const;

 private:
  void follow(const autodiff::BatchStatistics& statistics);

  const study::Study& study_;
  const Training& training_;
  const comm::Communicator& group_;
  models::State state_;
  at::Tensor gradient_;
  std::vector<comm::Reduction> sums_;  // under way
  std::optional<autodiff::Buckets> buckets_;
  bool mixes_;
  TrainingLoss loss_;
  std::optional<Factors> factors_;
  std::variant<AdamW, GradientDescent> optimiser_;  // of θ, or of the factors
  std::vector<Span>* spans_ = nullptr;
  double noted_ = 0;
};

}  // namespace taugrid::training
