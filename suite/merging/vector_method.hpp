// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Merging without data: a method sees vectors, wherever they come from, and makes τ stretch by stretch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "suite/merging/method.hpp"
#include "suite/merging/sink.hpp"
#include "suite/merging/task_vectors.hpp"
#include "suite/merging/team.hpp"

namespace taugrid::merging {

/// What a merge takes, about.
struct MergeWork {
  double passes = 1;   ///< over all vectors
  double flops = 0;    ///< of factorisations
  double bytes = 0;    ///< beside the vectors and τ
  double at_once = 0;  ///< numbers of a vector that it sees together, where these are more than a stretch
};

class VectorMethod : public Method {
 public:
  bool takes_data() const final { return false; }
  /// Whether the merged model depends on which θ0 the vectors are taken from.
  virtual bool needs_start() const { return true; }
  /// Whether vectors of low rank, as adapters have them, leave the result undetermined.
  virtual bool needs_full_rank() const { return false; }
  /// Whether what becomes of one tensor's numbers depends on those of others: cuts, norms, majorities.
  virtual bool spans_tensors() const { return false; }
  virtual MergeWork work(const std::vector<NamedTensor>& tensors, std::size_t count) const;
  /// Throws InputError, beginning with `what`, where values that each of `count` models may have of its own
  /// contradict each other.
  virtual void check_values(const std::string& what, std::size_t count) const;
  /// The same with other values of a parameter: one, or one a model. Null where it has no such parameter, or
  /// none that may differ between tensors.
  virtual std::shared_ptr<const VectorMethod> with(const std::string& parameter,
                                                   const std::vector<double>& values) const;
  /// One weight w_t a vector. Bitwise the same however the vectors are cut into stretches.
  /// A team shares out the places of sums, cuts and elections (Elementwise, but for drops by rank), and the
  /// tensors of methods on matrices; the others each rank makes whole.
  Merged merge(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
               const Team& team = {}) const;

  /// Whether a team's ranks each make a part.
  virtual bool is_shared() const { return false; }
  /// Whether each number of τ depends on the vectors' numbers at its place alone, so that a tensor may be
  /// cut.
  virtual bool is_number_by_number() const { return false; }
  /// Whether, of a method that spans tensors, each rank of a team that keeps apart makes its own places
  /// alone, and what is left of them (Sink::left), and counts what it puts.
  virtual bool shares_places() const { return false; }

  double passes(const Study& study, std::size_t count) const final;
  void count(Tally& tally, const std::string& regime, std::size_t models, std::size_t tasks) const final;
  MergeResult merge(const ModelsToMerge& models, const Part& part,
                    schedule::UnitContext& context) const final;

 protected:
  /// Returns how many numbers of τ are not zero.
  virtual std::int64_t run(const TaskVectors& vectors, const std::vector<double>& weights, const Sink& sink,
                           const Team& team) const = 0;
};

/// Throws InputError, beginning with `what`, where a weight is not 1, and the method has none.
void require_alike(const std::string& what, const std::string& method, const std::vector<double>& weights);

/// The same where weights add up to 0, but for rounding, and are divided by their sum.
void require_sum(const std::string& what, const std::vector<double>& weights);

/// The whole of what a method makes of vectors that count alike; `see(share)` is called after each stretch,
/// equally often on all ranks of the group, which make it together.
MergedVector merged_vector(const VectorMethod& method, const TaskVectors& vectors,
                           const comm::Communicator& group, const std::function<void(double share)>& see);

}  // namespace taugrid::merging
