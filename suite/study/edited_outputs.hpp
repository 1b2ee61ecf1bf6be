// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The output of edited models of any regime: a standard one is evaluated at the edited weights, a linear one
// is f(x; θ0) + Σ αₜ J(x)τₜ, from outputs and tangents that were computed once (paper 1, eq. 3).
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
  EditedOutputs(const Study& study, const schedule::RunFolder& folder, const comm::Communicator& group)
      : study_(study), folder_(folder), group_(group) {}

  /// Called with the number of a model and its output z [n, width].
  using Visit = std::function<void(std::int64_t, const at::Tensor&)>;
  /// `visit(k, z)` for each model of the edit: z is its output on the first n points of task b's sample.
  /// Outputs are never held together. A linear regime takes one tangent pass for all α of a sum or a
  /// direction, and none for terms.
  void each(const Edit& edit, std::size_t b, Split split, std::int64_t n, const Visit& visit) const;
  /// The output of an edit that has one model.
  at::Tensor output(const Edit& edit, std::size_t b, Split split, std::int64_t n) const;

  /// Outcomes [K] of the edit's models, on the host. `done(share)` is called on the way.
  Outcome outcomes(const Edit& edit, std::size_t b, Split split, std::int64_t n,
                   const std::function<void(double)>& done) const;

  /// What the edit's one model, θ0 or a sum, says on the first n points of task b's sample, which is answered
  /// by texts. `before(share done)` is called before each pass where models are held a stage at a time, and
  /// else once, as often on all ranks.
  Said said(const Edit& edit, std::size_t b, Split split, std::int64_t n, std::int64_t most,
            const std::function<void(double)>& before) const;

 private:
  Sample sample(const Edit& edit, std::size_t b, Split split, std::int64_t n) const;
  void each_of_linear(const Edit& edit, std::size_t b, Split split, std::int64_t n, const Visit& visit) const;
  /// f(x; θ0), or J(x)τ of one task, on the first n points of task b's sample.
  at::Tensor features(const std::string& key, std::size_t b, Split split, std::int64_t n) const;

  const Study& study_;
  const schedule::RunFolder& folder_;
  const comm::Communicator& group_;
  mutable std::map<std::string, at::Tensor> features_;  // by unit and tensor
};

/// The name of a tensor of a features unit.
std::string features_of(Split split, const std::string& task);

}  // namespace taugrid::study
