// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The encoder's output of an edited model, θ0 + Σ αₜτₜ, of any regime: a standard one is evaluated at the
// combined weights, a linear one is f(x; θ0) + Σ αₜ J(x)τₜ from features computed once (paper 1, eq. 3).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "suite/config/config.hpp"
#include "suite/experiments/study.hpp"
#include "suite/experiments/tally.hpp"
#include "suite/schedule/run_folder.hpp"

namespace taugrid::experiments {

class EditedModel {
 public:
  EditedModel(const Study& study, const schedule::RunFolder& folder, std::string regime,
              const comm::Communicator& group);

  /// Keys of the units that must be finished for `tasks`.
  static std::vector<std::string> needs(const Study& study, const std::string& regime,
                                        const std::vector<std::size_t>& tasks);
  /// Adds what outputs() of K = `models` rows of coefficients takes.
  static void count(Tally& tally, const Study& study, const std::string& regime,
                    const std::vector<std::size_t>& tasks, std::size_t b, Split split, std::int64_t n,
                    std::int64_t models);

  /// Adds the files that outputs() of this many tasks' models reads, once an object.
  static void count_files(Tally& tally, const Study& study, const std::string& regime, std::size_t tasks);

  /// As needs() and count(), for sum_accuracies().
  static std::vector<std::string> sum_needs(const Study& study, const std::string& regime,
                                            const std::vector<std::size_t>& tasks);
  static void count_sum(Tally& tally, const Study& study, const std::string& regime, std::size_t b,
                        Split split, std::int64_t n, std::int64_t models);

  /// Accuracies [A] of θ0 + α Σ τ, one α for all tasks. A linear regime takes one tangent pass in the
  /// direction Σ τ for all α.
  at::Tensor sum_accuracies(const std::vector<std::size_t>& tasks, const std::vector<double>& alpha,
                            std::size_t b, Split split, std::int64_t n,
                            const std::function<void(double)>& done) const;

  /// Accuracies [K] on the first n points of task b's sample, for K rows of coefficients as in outputs().
  /// `done(share)` is called on the way.
  at::Tensor accuracies(const std::vector<std::size_t>& tasks, const at::Tensor& alpha, std::size_t b,
                        Split split, std::int64_t n, const std::function<void(double)>& done) const;

  /// Outputs [K, n, features] on the first n points of task b's sample, for K rows of coefficients `alpha`
  /// [K, |tasks|] of the task vectors `tasks`. `visit(k, z)` is called row by row: outputs are never held
  /// together.
  void outputs(const std::vector<std::size_t>& tasks, const at::Tensor& alpha, std::size_t b, Split split,
               std::int64_t n, const std::function<void(std::int64_t, const at::Tensor&)>& visit) const;

 private:
  /// f(x; θ0), or J(x)τ of one task, on the first n points of task b's sample.
  at::Tensor features(const std::string& key, std::size_t b, Split split, std::int64_t n) const;

  const Study& study_;
  const schedule::RunFolder& folder_;
  std::string regime_;
  const comm::Communicator& group_;
  mutable std::map<std::string, store::TensorFile> features_;
};

/// The coefficients of task addition, key `alpha`: 21 from 0 to 1 unless given; with 1, for one-shot
/// addition.
std::vector<double> addition_grid(config::Section& section);

}  // namespace taugrid::experiments
