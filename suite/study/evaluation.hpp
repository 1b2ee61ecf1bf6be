// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Outputs of a model on a task's points. Where θ came from is not asked: it may be θ0, a fine-tuned model, a
// sum of task vectors, a merge.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "suite/comm/communicator.hpp"
#include "suite/study/points.hpp"
#include "suite/study/readouts.hpp"
#include "suite/study/stage_weights.hpp"

namespace taugrid::study {

/// What a model says on a task that is answered by texts.
struct Said {
  at::Tensor tokens;  ///< int64 [n, most], decoded greedily; −1 behind the end, which stands there
  at::Tensor
      right;  ///< int64 [n]: tokens of the right text that are ranked first behind the right ones before them
};

class Evaluation {
 public:
  /// All arguments outlive this object.
  Evaluation(const Settings& settings, const Model& model, const Readouts& readouts)
      : settings_(settings), model_(model), readouts_(readouts) {}

  /// The numbers that evaluation and training compute in: float32 or bfloat16.
  at::ScalarType compute_type() const { return settings_.precision == "bf16" ? at::kBFloat16 : at::kFloat; }

  /// f(x; θ), float32 [n, width of the task's output], for points of task t. They are dealt to the group's
  /// ranks, the result is on all.
  at::Tensor output(const comm::Communicator& group, const models::State& state, std::size_t t,
                    const Points& points) const;
  /// J(x)τ at θ0, likewise.
  at::Tensor tangent(const comm::Communicator& group, const at::Tensor& tau, std::size_t t,
                     const Points& points) const;

  /// As output() of each model of `weights`, in their order, or along a direction as tangent(): `visit(k,
  /// z)`. Several models go together through a part, as memory allows. Where the group's ranks share out the
  /// parts, they all go through all points.
  using Visit = std::function<void(std::int64_t k, const at::Tensor& z)>;
  void outputs_by_stages(const comm::Communicator& group, const StageWeights& weights, std::size_t t,
                         const Points& points, const Visit& visit) const;
  /// What `visit` is given where there is one model.
  at::Tensor output_by_stages(const comm::Communicator& group, const StageWeights& weights, std::size_t t,
                              const Points& points) const;

  /// What f(x; θ) says on points of task t, `most` tokens at most; with τ [P] what f(x; θ) + J(x)τ says, J at
  /// θ. On the host, on all ranks.
  Said said(const comm::Communicator& group, const models::State& state, const at::Tensor& tau, std::size_t t,
            const Points& points, const at::Tensor& labels, std::int64_t most) const;

  /// The same of the one model of `weights`, or along its direction, whose texts stand in line: most + 1
  /// passes. `before(share done)` is called before each, as often on all ranks.
  Said said_by_stages(const comm::Communicator& group, const StageWeights& weights, std::size_t t,
                      const Points& points, const at::Tensor& labels, std::int64_t most,
                      const std::function<void(double)>& before) const;

 private:
  class Decoding;
  struct Shard;
  template <class T>
  at::Tensor say(const models::Blocks<T>& p, Decoding texts) const;
  static Said said_in(const at::Tensor& rows);
  /// The rank's share of the points, or `all` of them.
  Shard shard_of(const comm::Communicator& group, std::int64_t width, const Points& points,
                 bool all = false) const;
  template <class F>
  at::Tensor by_shards(const comm::Communicator& group, std::int64_t width, const Points& points,
                       const char* what, F&& f) const;

  const Settings& settings_;
  const Model& model_;
  const Readouts& readouts_;
};

}  // namespace taugrid::study
