// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task addition of every pair (paper 3, figure 2): θ0 + α (τi + τj), one α for both, chosen to maximise the
// pair's normalised accuracy on validation points. What the predictors of interference are compared with.
//
// /pair_addition/R/alpha [A], validation_accuracy, test_accuracy [P,A,2]; chosen_alpha, absolute, normalized,
// one_shot_absolute, one_shot_normalized [P]; /correct/… [P,A,2,⌈N/8⌉] beside both accuracies
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/pairs/pair_units.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

class PairAddition final : public Experiment {
 public:
  PairAddition(const Study& study, std::vector<double> alpha) : Experiment(study), alpha_(std::move(alpha)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto a = static_cast<std::int64_t>(alpha_.size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto tally = [&](std::size_t p) {
        const auto [i, j] = study_.tasks.pairs()[p];
        auto one = Tally(study_).stores(4 * a + 5).publishes(4 * a + 5);
        const auto bytes = 4 * a * study::bytes_of_bits(points());
        one.stores(bytes, 1).publishes(bytes, 1);
        for (const auto t : {i, j}) {
          for (const auto split : {Split::validation, Split::test})
            one.edited(name, {i, j}, t, split, points(), a);
        }
        return one;
      };
      PairUnits(study_, key::pair_addition(name))
          .add(units, tally, PairUnits::needs(study_, name, key::single_task),
               [this, name, &folder](std::size_t p, schedule::UnitContext& context) {
                 return pair(name, p, folder, context);
               });
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto pairs = static_cast<std::int64_t>(study_.tasks.pairs().size());
    const auto a = static_cast<std::int64_t>(alpha_.size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/pair_addition/" + name;
      const auto axis = group + "/alpha";
      out.scale(axis, at::tensor(alpha_, at::kDouble), "alpha_pair_addition_" + name, "1");
      if (pairs == 0) continue;
      const auto boxes = PairUnits(study_, key::pair_addition(name)).boxes();
      for (const auto* what : {"validation_accuracy", "test_accuracy"}) {
        place(out, done, group + "/" + what, store::Element::float64, {pairs, a, 2}, {"pair", axis, "side"},
              boxes, what, "1");
      }
      for (const auto split : {Split::validation, Split::test}) {
        const std::string what = study::split_name(split), path = group + "/" + what + "_accuracy";
        const auto counts = points_of_pairs(split);
        if (!fits_attribute(counts)) continue;
        place(out, done, "/correct" + path, store::Element::uint8,
              {pairs, a, 2, study::bytes_of_bits(points())}, {"pair", axis, "side", bits}, boxes,
              what + "_correct");
        put_points(out, path, counts);
      }
      for (const auto* what :
           {"chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized"}) {
        place(out, done, group + "/" + what, store::Element::float64, {pairs}, {"pair"}, boxes, what, "1");
      }
      out.put(group + "/sample_index", study_.tasks.sample_index(Split::test, points()),
              {"task", "evaluation_point"});
      out.put(group + "/validation_sample_index", study_.tasks.sample_index(Split::validation, points()),
              {"task", "evaluation_point"});
    }
  }

 private:
  /// int64 [P,1,2]: the points of both tasks.
  at::Tensor points_of_pairs(Split split) const {
    const auto sizes = sample_sizes(study_, split, points());
    std::vector<std::int64_t> tasks;
    for (const auto& [i, j] : study_.tasks.pairs()) {
      tasks.push_back(static_cast<std::int64_t>(i));
      tasks.push_back(static_cast<std::int64_t>(j));
    }
    return sizes.index_select(0, at::tensor(tasks, at::kLong)).view({-1, 1, 2});
  }

  store::TensorFile pair(const std::string& name, std::size_t p, const schedule::RunFolder& folder,
                         schedule::UnitContext& context) const {
    const EditedOutputs model(study_, folder, name, context.group);
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto grid = at::tensor(alpha_, at::kDouble).view({-1, 1}).repeat({1, 2});
    const auto curves = [&, i = i, j = j](Split split) {
      std::vector<at::Tensor> sides, correct;
      for (const auto t : {i, j}) {
        auto one = model.outcomes({i, j}, grid, t, split, points(), [&](double share) {
          context.stop_if_requested();
          const auto before = static_cast<double>(sides.size()) + (split == Split::test ? 2 : 0);
          context.progress((share + before) / 4, "curve");
        });
        sides.push_back(std::move(one.accuracy));
        correct.push_back(std::move(one.correct));
      }
      return study::Outcome{at::stack(sides, 1), at::stack(correct, 1)};
    };
    const auto own = [&, i = i, j = j](const char* what) {
      std::vector<at::Tensor> both;
      for (const auto t : {i, j})
        both.push_back(folder.read_tensor(key::single_task(name, study_.tasks.name(t)), what));
      return at::stack(both);
    };
    const auto on_validation = curves(Split::validation), on_test = curves(Split::test);
    const auto &validation = on_validation.accuracy, &test = on_test.accuracy;
    const auto normalised = metrics::normalised_accuracy(test, own("accuracy"));
    const auto chosen = metrics::chosen_row(validation, own("validation_accuracy"));
    const auto one = std::find(alpha_.begin(), alpha_.end(), 1.0) - alpha_.begin();
    store::TensorFile file;
    file.tensors = {{"validation_accuracy", validation},
                    {"test_accuracy", test},
                    {"validation_correct", on_validation.correct},
                    {"test_correct", on_test.correct},
                    {"chosen_alpha", at::full({}, alpha_[static_cast<std::size_t>(chosen)], at::kDouble)},
                    {"absolute", test[chosen].mean()},
                    {"normalized", normalised[chosen].clone()},
                    {"one_shot_absolute", test[one].mean()},
                    {"one_shot_normalized", normalised[one].clone()}};
    return file;
  }

  std::vector<double> alpha_;
};

std::unique_ptr<Experiment> make_pair_addition(config::Config& config, const Study& study) {
  auto section =
      config.optional_section("pair_addition", "Adds each pair's task vectors: accuracy of θ0 + α (τ₁ + τ₂)");
  if (!section) return nullptr;
  study::require_vectors(study, "pair_addition");
  return std::make_unique<PairAddition>(study, addition_grid(*section));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(pair_addition, 100, make_pair_addition)
