// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// One training run: the settings, the batches, the step. Papers 1, 3 and 4: AdamW on θ, cosine schedule with
// warm-up, gradient clipping, the head frozen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/comm/device.hpp"
#include "suite/config/config.hpp"
#include "suite/experiments/adamw.hpp"
#include "suite/experiments/regime.hpp"
#include "suite/experiments/study.hpp"

namespace taugrid::experiments {

struct Training {
  std::int64_t steps, batch, warmup;
  double learning_rate, weight_decay, clip, checkpoint_seconds;
  double penalty_weight;       ///< λ of the τJp penalty (paper 3: 0.1)
  std::int64_t penalty_batch;  ///< inputs of each other task
  std::int64_t trace_every;    ///< steps between the points of a continuation's trace
};

/// [finetune], with single values overridden by [finetune.REGIME], of every regime.
std::map<std::string, Training> read_trainings(config::Config& config);

/// Test points a task that a continuation's trace is measured on: it holds all tasks' features at each of its
/// steps.
std::int64_t trace_points(const Study& study);

/// Tasks whose inputs the τJp penalty of task t is taken on.
std::vector<std::size_t> penalised_tasks(const Study& study, const Regime& regime, std::size_t t);

/// Inputs of one training step of task t, those of its penalty among them.
std::int64_t step_inputs(const Study& study, const std::string& regime, const Training& training,
                         std::size_t t);

/// Additions and multiplications of one training step of task t.
double step_flops(const Study& study, const std::string& regime, const Training& training, std::size_t t);

/// Looks for losses that are not finite. That makes the host wait for a GPU: due each second there, at each
/// step on a CPU.
class LossWatch {
 public:
  LossWatch(at::Device device, std::int64_t step);
  bool due() const;
  /// At the sums of these losses [steps], from the step of the last look to before `step`. Throws
  /// std::runtime_error that names the first step whose sum is not finite.
  void look(const std::vector<at::Tensor>& losses, std::int64_t step);

 private:
  double every_, looked_;
  std::int64_t finite_;
};

/// Rows of one step's batch: epochs of seeded permutations, laid end to end; any step can be found again.
class Batches {
 public:
  Batches(std::int64_t rows, std::int64_t batch, std::uint64_t seed)
      : rows_(rows), batch_(batch), seed_(seed) {}
  std::int64_t batch() const { return batch_; }
  at::Tensor rows(std::int64_t step);  ///< int64 [batch]

 private:
  const at::Tensor& epoch(std::int64_t number);
  std::int64_t rows_, batch_, current_ = -1;
  std::uint64_t seed_;
  at::Tensor order_;
};

class Trainer {
 public:
  /// Of task `t`; of a joint regime, `t` is not read. The samples of a step are dealt to the group's ranks.
  Trainer(const Study& study, const std::string& regime, const Training& training, std::size_t t,
          const comm::Communicator& group);

  /// The step's loss before its update, on the device. Several ranks sum their gradients in stretches, each
  /// beside the rest of the backward pass.
  LossValue step(std::int64_t number);

  /// What a step did, and when, in seconds on the steady clock.
  struct Span {
    std::string what;
    double begin, end;
  };
  /// Notes the spans of all further steps there.
  void observe(std::vector<Span>& spans) { spans_ = &spans; }
  const at::Tensor& theta() const { return theta_; }

  /// All that the next step depends on.
  void save(store::TensorFile& state) const;
  void load(const store::TensorFile& state);

 private:
  std::vector<Part> parts(std::int64_t step);
  std::vector<Part> take(std::int64_t step);
  void prepare(std::int64_t step);
  Part part(std::size_t task, const at::Tensor& rows) const;

  struct Source {
    std::size_t task;
    Batches batches;
  };
  const Study& study_;
  const Regime& regime_;
  const Training& training_;
  const comm::Communicator& group_;
  at::Tensor theta_, gradient_;
  std::vector<comm::Reduction> sums_;  // under way
  std::optional<autodiff::Buckets> buckets_;
  std::vector<Span>* spans_ = nullptr;
  TrainingLoss loss_;
  AdamW optimiser_;
  std::vector<Source> own_;     // one; of a joint regime, all tasks
  std::vector<Source> others_;  // penalised
  struct Coming {
    std::int64_t step;
    std::vector<Part> parts;
    comm::Beside work;
  };
  std::optional<Coming> coming_;  // on a GPU: the next batch, on its way there beside this step
};

}  // namespace taugrid::experiments
