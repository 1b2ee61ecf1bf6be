// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The output of edited models of any regime: a standard one is evaluated at the edited weights, a linear one is
// f(x; θ0) + Σ αₜ J(x)τₜ, from outputs and tangents that were computed once (paper 1, eq. 3).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "suite/schedule/run_folder.hpp"
#include "suite/study/correctness.hpp"
#include "suite/study/study.hpp"

namespace taugrid::study {

class EditedOutputs {
 public:
  EditedOutputs(const Study& study, const schedule::RunFolder& folder, std::string regime,
                const comm::Communicator& group);

  /// Keys of the units that must be finished for models edited by `tasks`, seen on points of task b.
  static std::vector<std::string> needs(const Study& study, const std::string& regime,
                                        const std::vector<std::size_t>& tasks, std::size_t b);
  /// The keys that sum_accuracies() needs, as needs() for each().
  static std::vector<std::string> sum_needs(const Study& study, const std::string& regime,
                                            const std::vector<std::size_t>& tasks, std::size_t b);

  /// Outcomes [A] of θ0 + α Σ τ, one α for all tasks, on the host. A linear regime takes one tangent pass in the
  /// direction Σ τ for all α.
  Outcome sum_outcomes(const std::vector<std::size_t>& tasks, const std::vector<double>& alpha,
                       std::size_t b, Split split, std::int64_t n,
                       const std::function<void(double)>& done) const;

  /// Outcomes [A] of θ0 + ατ, on the host, τ [P] merged of these tasks' vectors. A linear regime takes one
  /// tangent pass in the direction for all α.
  Outcome merged_outcomes(const std::vector<std::size_t>& tasks, const at::Tensor& tau,
                          const std::vector<double>& alpha, std::size_t b, Split split, std::int64_t n,
                          const std::function<void(double)>& done) const;

  /// Outcomes [K], on the host, on the first n points of task b's sample, for K rows of coefficients as in each().
  /// `done(share)` is called on the way.
  Outcome outcomes(const std::vector<std::size_t>& tasks, const at::Tensor& alpha, std::size_t b, Split split,
                   std::int64_t n, const std::function<void(double)>& done) const;

  /// What θ0 + α Σ τ over these tasks says on the first n points of task b's sample, which is answered by
  /// texts.
  Said said(const std::vector<std::size_t>& tasks, double alpha, std::size_t b, Split split, std::int64_t n,
            std::int64_t most) const;

  /// Called with the number of a model and its output z [n, width].
  using Visit = std::function<void(std::int64_t, const at::Tensor&)>;
  /// `visit(k, z)` for K rows of coefficients `alpha` [K, |tasks|] of the task vectors `tasks`: z [n, width] is
  /// the output on the first n points of task b's sample. Outputs are never held together.
  void each(const std::vector<std::size_t>& tasks, const at::Tensor& alpha, std::size_t b, Split split,
            std::int64_t n, const Visit& visit) const;
  /// The same of θ0 + α Σ τ, as sum_outcomes().
  void each_sum(const std::vector<std::size_t>& tasks, const std::vector<double>& alpha, std::size_t b,
                Split split, std::int64_t n, const Visit& visit) const;

 private:
  /// Outcomes of `count` models, which `go` visits.
  Outcome outcomes_of(std::size_t count, std::size_t b, Split split, std::int64_t n,
                      const std::function<void(double)>& done,
                      const std::function<void(const Visit&)>& go) const;
  /// Visits θ0 + ατ for any direction τ [P]: `state(α)` is that model.
  void along(const at::Tensor& tau, const std::function<models::State(double)>& state,
             const std::vector<double>& alpha, std::size_t b, Split split, std::int64_t n,
             const Visit& visit) const;
  /// f(x; θ0), or J(x)τ of one task, on the first n points of task b's sample.
  at::Tensor features(const std::string& key, std::size_t b, Split split, std::int64_t n) const;

  const Study& study_;
  const schedule::RunFolder& folder_;
  std::string regime_;
  const comm::Communicator& group_;
  mutable std::map<std::string, at::Tensor> features_;  // by unit and tensor
};

/// The name of a tensor of a features unit.
std::string features_of(Split split, const std::string& task);

}  // namespace taugrid::study
