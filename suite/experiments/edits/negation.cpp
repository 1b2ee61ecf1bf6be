// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task negation (papers 1 and 3): θ0 − α τt. Of the α whose accuracy on the control task is at least 95 % of
// θ0's on validation points, the one with the least accuracy on task t; then both are measured on test
// points. Two ranges of α, as the papers differ: {0, 0.05, …, 1} (paper 1) and {0, 0.1, …, 3} (paper 3,
// "wide"). All curves are stored, over the union. Where no α keeps the control, all of the task's numbers are
// NaN.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "suite/experiments/edits/target_and_control.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string negation_key(const std::string& regime, const std::string& task) {
  return key::of("negation", regime, task);
}

std::vector<OutputGroup> negation_outputs() {
  const With wide = {.when = "wide_alpha"};
  return {{"/negation/R", "task negation: θ0 − ατ; target is the task, control the control task",
           together(
               {forgotten_outputs("task", "alpha_negation_R"),
                {{"wide/chosen_alpha", "task", "1", "the α that is chosen in the wide range (paper 3)", wide},
                 {"wide/target", "task", "1", "test accuracy on the task at that α", wide},
                 {"wide/control", "task", "1", "test accuracy on the control at that α", wide}}}),
           "[negation]"}};
}

class Negation final : public Experiment {
 public:
  Negation(const Study& study, std::vector<ControlledRange> ranges, double threshold)
      : Experiment(study), ranges_(std::move(ranges)), threshold_(threshold) {
    for (const auto& range : ranges_) alpha_.insert(alpha_.end(), range.alpha.begin(), range.alpha.end());
    std::sort(alpha_.begin(), alpha_.end());
    const auto same = [](double a, double b) { return std::abs(a - b) < 1e-9; };
    alpha_.erase(std::unique(alpha_.begin(), alpha_.end(), same), alpha_.end());
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (const auto t : study_.tasks.all()) {
        const auto edit = Edit::single(name, t, minus(alpha_));
        units.push_back(unit(negation_key(name, study_.tasks.name(t)),
                             target_and_control_tally(study_, edit, t),
                             target_and_control_needs(study_, edit, t),
                             [this, edit, t, &folder](schedule::UnitContext& context) {
                               return target_and_control(study_, folder, context, edit, t);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/negation", study_.settings.vector_regimes, {{"alpha", length_of(alpha_)}});
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      put_target_and_control(
          out, done, study_, "/negation/" + name, alpha_, ranges_, threshold_,
          each_task(study_, [&](const std::string& task) { return negation_key(name, task); }));
    }
  }

 private:
  std::vector<ControlledRange> ranges_;
  double threshold_;
  std::vector<double> alpha_;  // of all ranges
};

std::unique_ptr<Experiment> make_negation(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "negation", "Subtracts each task vector: accuracy of θ0 − α τ on its task and on the control");
  if (!section) return nullptr;
  study::require_vectors(study, "negation");
  require_control(study, "negation");
  std::vector<double> narrow;
  for (int k = 0; k <= 20; ++k) narrow.push_back(0.05 * k);
  narrow = section->alpha_grid(
      "alpha", {"Coefficients, in the range of paper 1", {.fallback = "0, 0.05, … 1"}}, narrow, {0, 1e3});
  auto wide = read_wide_alpha(*section, "wide_alpha", "Coefficients, in the range of paper 3");
  std::vector<ControlledRange> ranges = {{"", narrow}, {"wide", std::move(wide)}};
  return std::make_unique<Negation>(study, std::move(ranges), control_threshold(*section));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(negation, 110, make_negation, negation_outputs)
