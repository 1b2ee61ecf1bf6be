// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task addition (papers 1 and 3): θ0 + α Σ τt, one α for all tasks, chosen to maximise the mean normalised
// accuracy on validation points; the whole curve is stored. Normalised accuracy: mean over t of
// accuracy_t(merged)/accuracy_t(θ0 + τt). One-shot is α = 1.
//
// /addition/R/alpha [A], validation_accuracy, test_accuracy [A,T], chosen_alpha, absolute, normalized,
// one_shot_absolute, one_shot_normalized; /correct/… [A,T,⌈N/8⌉] beside both accuracies
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/support/grids.hpp"
#include "suite/experiments/support/placement.hpp"

namespace taugrid::experiments {
namespace {

class Addition final : public Experiment {
 public:
  Addition(const Study& study, std::vector<double> alpha) : Experiment(study), alpha_(std::move(alpha)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (std::size_t t = 0; t < study_.tasks.size(); ++t) {
        auto needs = EditedOutputs::sum_needs(study_, name, study_.tasks.all(), t);
        needs.push_back(key::single_task(name, study_.tasks.name(t)));
        const auto a = static_cast<std::int64_t>(alpha_.size());
        auto tally = Tally(study_).stores(2 * a).publishes(2 * (a + points()));
        const auto bytes = 2 * a * study::bytes_of_bits(points());
        tally.stores(bytes, 1).publishes(bytes, 1);
        for (const auto split : {Split::validation, Split::test})
          tally.edited_sum(name, t, split, points(), a);
        units.push_back(
            unit(key::addition(name, study_.tasks.name(t)), tally, needs, [this, name, t, &folder](schedule::UnitContext& context) {
              return curve(name, t, folder, context);
            }));
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    const auto a = static_cast<std::int64_t>(alpha_.size());
    for (const auto& name : study_.settings.vector_regimes) {
      auto validation = at::zeros({a, tasks}, at::kDouble), test = validation.clone();
      std::map<Split, std::vector<at::Tensor>> correct;
      auto own_validation = at::zeros({tasks}, at::kDouble), own_test = own_validation.clone();
      for (std::int64_t t = 0; t < tasks; ++t) {
        const auto task = static_cast<std::size_t>(t);
        const auto file = done.folder.read_unit(done.world, key::addition(name, study_.tasks.name(task)));
        validation.select(1, t).copy_(file.tensors.at("validation"));
        test.select(1, t).copy_(file.tensors.at("test"));
        for (const auto split : {Split::validation, Split::test})
          correct[split].push_back(file.tensors.at(std::string(study::split_name(split)) + "_correct"));
        const auto single = done.folder.read_unit(done.world, key::single_task(name, study_.tasks.name(task)));
        own_validation[t] = single.tensors.at("validation_accuracy");
        own_test[t] = single.tensors.at("accuracy");
      }
      const auto chosen = metrics::chosen_row(validation, own_validation);
      const auto group = "/addition/" + name;
      const auto axis = group + "/alpha";
      out.scale(axis, at::tensor(alpha_, at::kDouble), "alpha_addition_" + name, "1");
      out.put(group + "/validation_accuracy", validation, {axis, "task"}, "1");
      out.put(group + "/test_accuracy", test, {axis, "task"}, "1");
      for (const auto& [split, rows] : correct) {
        const auto path = group + "/" + study::split_name(split) + "_accuracy";
        out.put("/correct" + path, at::stack(rows, 1), {axis, "task", bits});
        put_points(out, path, sample_sizes(study_, split, points()));
      }
      const auto scalar = [&](const std::string& what, double value) {
        out.put(group + "/" + what, at::full({}, value, at::kDouble), {}, "1");
      };
      scalar("chosen_alpha", alpha_[static_cast<std::size_t>(chosen)]);
      scalar("absolute", test[chosen].mean().item<double>());
      scalar("normalized", metrics::normalised_accuracy(test[chosen], own_test).item<double>());
      for (std::int64_t k = 0; k < a; ++k) {
        if (alpha_[static_cast<std::size_t>(k)] != 1.0) continue;
        scalar("one_shot_absolute", test[k].mean().item<double>());
        scalar("one_shot_normalized", metrics::normalised_accuracy(test[k], own_test).item<double>());
      }
      out.put(group + "/sample_index", study_.tasks.sample_index(Split::test, points()),
              {"task", "evaluation_point"});
      out.put(group + "/validation_sample_index", study_.tasks.sample_index(Split::validation, points()),
              {"task", "evaluation_point"});
    }
  }

 private:
  /// Outcomes [A] of task t under every α.
  store::TensorFile curve(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                          schedule::UnitContext& context) const {
    const EditedOutputs model(study_, folder, name, context.group);
    store::TensorFile file;
    for (const auto split : {Split::validation, Split::test}) {
      const std::string name_of = study::split_name(split);
      const auto found = model.sum_outcomes(study_.tasks.all(), alpha_, t, split, points(), [&](double share) {
        context.stop_if_requested();
        context.progress((share + (split == Split::test)) / 2, "curve");
      });
      file.tensors[name_of] = found.accuracy;
      file.tensors[name_of + "_correct"] = found.correct;
    }
    return file;
  }

  std::vector<double> alpha_;
};

std::unique_ptr<Experiment> make_addition(config::Config& config, const Study& study) {
  auto section =
      config.optional_section("addition", "Adds all task vectors: accuracy of θ0 + α Σ τ on every task");
  if (!section) return nullptr;
  require_vectors(study, "addition");
  return std::make_unique<Addition>(study, addition_grid(*section));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(addition, 90, make_addition)
