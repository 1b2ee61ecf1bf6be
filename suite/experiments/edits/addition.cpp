// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task addition (papers 1 and 3): θ0 + α Σ τt, one α for all tasks, chosen to maximise the mean normalised
// accuracy on validation points; the whole curve is stored. Normalised accuracy: mean over t of
// accuracy_t(merged)/accuracy_t(θ0 + τt). One-shot is α = 1, which is on every grid.
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/edits/task_curves.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string addition_key(const std::string& regime, const std::string& task) {
  return key::of("addition", regime, task);
}

std::vector<OutputGroup> addition_outputs() {
  return {{"/addition/R", "task addition: θ0 + α Σ τ",
           together({curve_outputs("alpha_addition_R"),
                     {{"chosen_alpha", "", "1",
                       "the α with the largest mean normalised accuracy on validation points"},
                      {"one_shot_absolute", "", "1", "the mean accuracy at α = 1"},
                      {"one_shot_normalized", "", "1", "the mean normalised accuracy at α = 1"}}}),
           "[addition]"}};
}

class Addition final : public Experiment {
 public:
  Addition(const Study& study, std::vector<double> alpha) : Experiment(study), alpha_(std::move(alpha)) {}

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      const auto edit = Edit::sum(name, study_.tasks.all(), alpha_);
      for (const auto t : study_.tasks.all()) {
        auto needs = edit.needs(study_, t);
        needs.push_back(key::single_task(name, study_.tasks.name(t)));
        units.push_back(unit(addition_key(name, study_.tasks.name(t)), task_curve_tally(study_, edit, t),
                             needs, [this, edit, t, &folder](schedule::UnitContext& context) {
                               return curve(edit, t, folder, context);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/addition", study_.settings.vector_regimes, {{"alpha", length_of(alpha_)}});
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/addition/" + name;
      const auto curves = put_task_curves(out, done, study_, group, name, alpha_,
                                          [&](const std::string& task) { return addition_key(name, task); });
      out.put(group + "/chosen_alpha", alpha_[static_cast<std::size_t>(curves.chosen)]);
      const auto one_shot = curves.test[std::find(alpha_.begin(), alpha_.end(), 1.0) - alpha_.begin()];
      out.put(group + "/one_shot_absolute", one_shot.mean().item<double>());
      out.put(group + "/one_shot_normalized",
              metrics::normalised_accuracy(one_shot, curves.own_test).item<double>());
    }
  }

 private:
  /// Outcomes [A] of task t under every α.
  store::TensorFile curve(const Edit& edit, std::size_t t, const schedule::RunFolder& folder,
                          schedule::UnitContext& context) const {
    const EditedOutputs models(study_, folder, context.group);
    return task_curve(context, [&](Split split, const auto& done) {
      return models.outcomes(edit, t, split, points(), done);
    });
  }

  std::vector<double> alpha_;
};

std::unique_ptr<Experiment> make_addition(config::Config& config, const Study& study) {
  auto section =
      config.optional_section("addition", "Adds all task vectors: accuracy of θ0 + α Σ τ on every task");
  if (!section) return nullptr;
  study::require_vectors(study, "addition");
  return std::make_unique<Addition>(study, addition_grid(*section));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(addition, 90, make_addition, addition_outputs)
