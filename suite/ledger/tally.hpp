// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Counts what a unit will take: an experiment says what the unit does, this says how much that is, and makes
// the unit's own computation ready to be measured at other sizes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "suite/schedule/work_unit.hpp"
#include "suite/study/edited_outputs.hpp"
#include "suite/training/training.hpp"

namespace taugrid::ledger {

using study::Split;
using study::Study;

/// Each call adds to the load and returns the object. F: flops of one forward pass over one input. Samples
/// are shared out to the ranks of a group, outputs are compared on each.
class Tally {
 public:
  using Rehearse = std::function<schedule::Rehearsal(const comm::Communicator& alone, std::int64_t inputs,
                                                     std::int64_t width)>;
  explicit Tally(const Study& study) : Tally(study, study.settings.ranks_per_unit) {}
  /// So many ranks share out the unit's samples; 1: each takes them all.
  Tally(const Study& study, int ranks);

  /// f(x; θ) of `inputs` inputs of task t, `times` times: F an input.
  Tally& forward(std::size_t t, std::int64_t inputs, std::int64_t times = 1);
  /// The same, of which each rank keeps its own rows.
  Tally& forward_apart(std::size_t t, std::int64_t inputs, std::int64_t times = 1);
  /// J(x)τ, likewise: 3 F.
  Tally& tangent(std::size_t t, std::int64_t inputs, std::int64_t times = 1);
  /// Passes of any kind over `inputs` inputs, `batch` at a time, `times` times: `flops` an input, and numbers
  /// that an input takes at most.
  Tally& passes(const std::string& kind, std::int64_t inputs, std::int64_t batch, std::int64_t times,
                double flops, double passing, Rehearse rehearse);
  /// Logits of task t and their argmax, after edits of the outputs, likewise.
  Tally& logits(std::size_t t, std::int64_t inputs, std::int64_t times = 1);
  /// The KL divergences of two outputs of task t, both ways, likewise.
  Tally& divergence(std::size_t t, std::int64_t inputs, std::int64_t times);
  /// Training steps of task t in this regime.
  Tally& train(const std::string& regime, const training::Training& training, std::size_t t,
               std::int64_t steps);
  /// Sums over the ranks of a unit of so many float32 numbers, and gathers of all ranks' together, `times`
  /// times.
  Tally& sums(std::int64_t numbers, std::int64_t times) {
    return exchange(schedule::sums_over_ranks, numbers, times);
  }
  Tally& gathers(std::int64_t numbers, std::int64_t times) {
    return exchange(schedule::gathers_of_ranks, numbers, times);
  }
  /// Products with the Hessian of the loss over `points` points, `chunk` at a time; `basis` vectors are held.
  /// Where there are several ranks, each has its own points' part of them. `gradient`: the loss's gradient is
  /// taken before them.
  Tally& hessian(bool linear, std::int64_t points, std::int64_t chunk, std::int64_t products, bool gradient,
                 std::int64_t basis, Rehearse rehearse);
  /// Gram matrices of `logits` logits: `rows` points with themselves and with `beside` others, `chunk` of
  /// these at a time.
  Tally& gram(std::int64_t rows, std::int64_t beside, std::int64_t chunk, std::int64_t logits,
              Rehearse rehearse);
  /// What was counted until now, for count_part_of_later().
  struct Mark {
    std::size_t work = 0;
    double flops = 0;
  };
  Mark mark() const { return {load_.work.size(), load_.flops}; }
  /// Takes this part of what was counted after the mark, as where a pass begins behind frozen stages
  /// (part_left). What ranks gather stays whole.
  Tally& count_part_of_later(const Mark& mark, double part);
  /// Outputs of the edit's models on n points of task b's split, and their logits; `times` as many models,
  /// where the same is done with as many directions or coefficients. A sum visits its vectors; a direction is
  /// held already.
  Tally& edited(const study::Edit& edit, std::size_t b, Split split, std::int64_t n, std::int64_t times = 1);

  /// Passes where models are held a stage at a time, or by stretches. What memory does not hold is made again
  /// for every `at_once` inputs that all models go through together, and each time of `times`.
  struct How {
    bool tangent = false;      ///< of J(x)τ, τ being the vectors' sum: three passes of two states each
    bool made_before = false;  ///< the unit has made before what memory holds
  };
  struct Stages {
    std::int64_t models, inputs, batch, at_once;
    double flops;  ///< an input's, of one model's value
    std::int64_t times = 1;
    How how = {};
  };
  Tally& by_stages(const std::vector<std::size_t>& tasks, const Stages& of);
  /// Task t's outputs for n inputs of these vectors' models; of tangents one after another.
  Tally& outputs_by_stages(std::size_t t, const std::vector<std::size_t>& tasks, std::int64_t models,
                           std::int64_t n, const How& how);

  /// Batch norm's statistics of `models` models edited by these tasks' vectors, where the regime's are
  /// computed again, by each rank of the group. edited() counts them.
  Tally& statistics(const std::string& regime, const std::vector<std::size_t>& tasks, std::int64_t models);
  /// Task vectors: read once and kept, or, where memory does not hold all of the run, read each time.
  Tally& vectors(const std::string& regime, const std::vector<std::size_t>& tasks);
  /// A visit of these tasks' vectors, block by block.
  Tally& visit(const std::string& regime, const std::vector<std::size_t>& tasks);
  /// A sample, drawn once and kept; where it exceeds the bound, `at_once` of its points, by default
  /// evaluation_batch.
  Tally& sample(std::size_t t, Split split, std::int64_t n, std::int64_t at_once = 0);
  /// Bytes read and let go.
  Tally& goes_through(double bytes);
  /// Bytes read and held meanwhile.
  Tally& reads(double bytes);
  /// Bytes held beside all else.
  Tally& holds_beside(double bytes);
  /// Bytes held meanwhile: the most of all calls.
  Tally& holds(double bytes);
  /// Flops of no model's pass, which nothing rehearses.
  Tally& computes(double flops);
  /// A model is written.
  Tally& checkpoint();
  /// Numbers in the unit's file.
  Tally& stores(std::int64_t numbers, int bytes_each = 8);
  /// Adds another unit's work, which one unit does after this one's.
  Tally& operator+=(const Tally& other);

  schedule::Load load() const;
  const Study& study() const { return *study_; }

 private:
  void add(schedule::Work work, double all_flops, double bytes);
  Tally& gathers_outputs(std::size_t t, std::int64_t inputs, std::int64_t times);
  Tally& exchange(const char* kind, std::int64_t numbers, std::int64_t times);
  std::int64_t share(std::int64_t n) const { return comm::rows_a_rank(n, ranks_); }
  double theta_bytes() const { return 4.0 * static_cast<double>(study_->model.layout().size()); }

  const Study* study_;
  int ranks_;
  schedule::Load load_;
  double held_ = 0;  // of holds()
};

/// One stage of a model that is held a stage at a time, for so many inputs; `tangent`: of dual numbers.
schedule::Rehearsal rehearse_stage(const Study& study, std::int64_t inputs, bool tangent = false);

/// Flops of the Gram matrices of one call of Tally::gram's computation: `recorded` points, `rows` of them as
/// rows. For each logit the gradients of activations and weights (F each), and their inner products.
double gram_flops(const Study& study, std::int64_t recorded, std::int64_t rows, std::int64_t logits);

/// The part of a pass that is left where the stages before finetune.first_stage have run, by the flops of
/// products with blocks.
double part_left(const Study& study);

/// Bytes of a linear regime's outputs on task b's samples: of one tensor a split.
double features_bytes(const Study& study, std::size_t b);

/// Adds those of `more` that `needs` does not hold yet.
void add_missing(std::vector<std::string>& needs, const std::vector<std::string>& more);

/// The unit, with its cost: the flops, and a byte moved counted as one.
schedule::WorkUnit unit(std::string key, const Tally& tally, std::vector<std::string> needs,
                        std::function<store::TensorFile(schedule::UnitContext&)> compute);

}  // namespace taugrid::ledger
