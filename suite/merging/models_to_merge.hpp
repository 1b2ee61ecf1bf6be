// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// What a method merges in a run: models θ0 + τ, each with the tasks whose data are its own. τ is a task's own
// vector, or a basis of several tasks' vectors ([bases.merge_out]).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "suite/merging/task_vectors.hpp"
#include "suite/study/study.hpp"

namespace taugrid::merging {

class ModelToMerge {
 public:
  /// Task t's own. The study outlives it.
  ModelToMerge(const study::Study& study, std::string regime, std::size_t t);
  /// With a basis [P] of these tasks' vectors; of one task the basis is its vector.
  ModelToMerge(const study::Study& study, std::string regime, std::vector<std::size_t> tasks,
               at::Tensor basis);

  const std::string& regime() const { return regime_; }
  /// Whose data are its own, in their order: one at least.
  const std::vector<std::size_t>& tasks() const { return tasks_; }
  /// τ [P], on the device.
  at::Tensor vector() const;
  /// Where outputs are recorded: θ0 + τ with its buffers, those of an edit by these tasks; of a linear regime
  /// θ0.
  models::State state() const;

 private:
  const study::Study& study_;
  std::string regime_;
  std::vector<std::size_t> tasks_;
  at::Tensor basis_;  // undefined where τ is read by its task's name
};

class ModelsToMerge {
 public:
  /// Each task's own. The study outlives it.
  ModelsToMerge(const study::Study& study, const std::string& regime, const std::vector<std::size_t>& tasks);
  /// With the bases [P] of clusters of tasks.
  ModelsToMerge(const study::Study& study, const std::string& regime,
                const std::vector<std::vector<std::size_t>>& clusters, const std::vector<at::Tensor>& bases);

  const std::string& regime() const { return regime_; }
  std::size_t size() const { return models_.size(); }
  const ModelToMerge& operator[](std::size_t i) const { return models_[i]; }
  /// The tasks of all models, model after model.
  std::vector<std::size_t> tasks() const;

  /// Visits the numbers in `range` of every τ as study::Vectors::visit() does, on the device.
  void visit(Range range, std::int64_t align, const study::Vectors::Visitor& visitor) const;
  /// Every τ as methods without data see it, on the host.
  const TaskVectors& vectors() const { return *vectors_; }
  /// Inner products of every τ [size,size], float64, on the host. Collective.
  at::Tensor gram(const comm::Communicator& group) const;

 private:
  const study::Study& study_;
  std::string regime_;
  std::vector<ModelToMerge> models_;
  std::vector<at::Tensor> bases_;  // on the device; none where all are tasks' own
  std::unique_ptr<const TaskVectors> vectors_;
};

/// A model in its regime's function, at which an output is recorded: itself, or θ0 of a linear regime, whose
/// outputs are f(x; θ0) + J(x)τ.
class RegimeModel {
 public:
  RegimeModel(const study::Study& study, const ModelToMerge& model);
  /// f at this state; of a linear regime at θ0, with τ.
  RegimeModel(const study::Study& study, models::State state, at::Tensor tau)
      : study_(study), state_(std::move(state)), tau_(std::move(tau)) {}
  const models::State& state() const { return state_; }
  /// The model's output [n, width] as task t reads it, given that of f at state().
  at::Tensor output(std::size_t t, const at::Tensor& recorded, const models::Batch& batch) const;

 private:
  const study::Study& study_;
  models::State state_;
  at::Tensor tau_;  // of a linear regime
};

}  // namespace taugrid::merging
