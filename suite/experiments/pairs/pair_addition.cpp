// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task addition of every pair (paper 3, figure 2): θ0 + α (τi + τj), one α for both, chosen to maximise the
// pair's normalised accuracy on validation points. What the predictors of interference are compared with.
#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/experiments/pairs/pair_units.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string pair_addition_key(const std::string& regime) { return key::of("pair_addition", regime); }

std::vector<OutputGroup> pair_addition_outputs() {
  return {{"/pair_addition/R", "task addition of pairs: θ0 + α(τᵢ + τⱼ)",
           together({{{"alpha", "alpha", "1", "one α for both", With{.scale = "alpha_pair_addition_R"}},
                      {"validation_accuracy", "pair alpha side", "1", "of both tasks, on validation points",
                       With{.correct = true}},
                      {"test_accuracy", "pair alpha side", "1", "of both tasks, on test points",
                       With{.correct = true}},
                      {"chosen_alpha", "pair", "1",
                       "the α with the largest normalised accuracy on validation points"},
                      {"absolute", "pair", "1", "mean accuracy on test points at chosen_alpha"},
                      {"normalized", "pair", "1", "mean normalised accuracy on test points at chosen_alpha"},
                      {"one_shot_absolute", "pair", "1", "mean accuracy at α = 1"},
                      {"one_shot_normalized", "pair", "1", "mean normalised accuracy at α = 1"}},
                     both_sample_rows()}),
           "[pair_addition]"}};
}

class PairAddition final : public Experiment {
 public:
  PairAddition(const Study& study, std::vector<double> alpha) : Experiment(study), alpha_(std::move(alpha)) {}

  bool runs_by_stages() const override { return true; }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto a = static_cast<std::int64_t>(alpha_.size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto tally = [&](std::size_t p) {
        const auto [i, j] = study_.tasks.pairs()[p];
        auto work = Tally(study_).stores(4 * a + 5);
        const auto bytes = 4 * a * study::bytes_of_bits(points());
        work.stores(bytes, 1);
        for (const auto t : {i, j}) {
          for (const auto split : {Split::validation, Split::test})
            work.edited(Edit::together(name, {i, j}, alpha_), t, split, points());
        }
        return work;
      };
      PairUnits(study_, pair_addition_key(name))
          .add(units, tally, PairUnits::needs(study_, name, key::single_task),
               [this, name, &folder](std::size_t p, schedule::UnitContext& context) {
                 return pair(name, p, folder, context);
               });
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/pair_addition", study_.settings.vector_regimes, {{"alpha", length_of(alpha_)}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto pairs = static_cast<std::int64_t>(study_.tasks.pairs().size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/pair_addition/" + name;
      out.put(group + "/alpha", alpha_);
      if (pairs == 0) continue;
      const auto boxes = PairUnits(study_, pair_addition_key(name)).boxes();
      for (const auto* what : {"validation_accuracy", "test_accuracy"}) {
        out.place(done, group + "/" + what, boxes, what);
      }
      for (const auto split : {Split::validation, Split::test}) {
        const std::string what = study::split_name(split), path = group + "/" + what + "_accuracy";
        const auto counts = points_of_pairs(split);
        if (!fits_attribute(counts)) continue;
        out.place(done, "/correct" + path, boxes, what + "_correct");
        out.put_points(path, counts);
      }
      for (const auto* what :
           {"chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized"}) {
        out.place(done, group + "/" + what, boxes, what);
      }
      out.put(group + "/sample_index", study_.samples.index(Split::test, points()));
      out.put(group + "/validation_sample_index", study_.samples.index(Split::validation, points()));
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
    const EditedOutputs models(study_, folder, context.group);
    const auto [i, j] = study_.tasks.pairs()[p];
    const auto edit = Edit::together(name, {i, j}, alpha_);
    const auto curves = [&, i = i, j = j](Split split) {
      std::vector<at::Tensor> sides, correct;
      for (const auto t : {i, j}) {
        auto outcome = models.outcomes(edit, t, split, points(), [&](double share) {
          context.stop_if_requested();
          const auto before = static_cast<double>(sides.size()) + (split == Split::test ? 2 : 0);
          context.progress((share + before) / 4, "curve");
        });
        sides.push_back(std::move(outcome.accuracy));
        correct.push_back(std::move(outcome.correct));
      }
      return study::Outcome{at::stack(sides, 1), at::stack(correct, 1)};
    };
    const auto single = [&, i = i, j = j](const char* what) {
      std::vector<at::Tensor> both;
      for (const auto t : {i, j})
        both.push_back(folder.read_tensor(key::single_task(name, study_.tasks.name(t)), what));
      return at::stack(both);
    };
    const auto on_validation = curves(Split::validation), on_test = curves(Split::test);
    const auto &validation = on_validation.accuracy, &test = on_test.accuracy;
    const auto normalised = metrics::normalised_accuracy(test, single("accuracy"));
    const auto chosen = metrics::chosen_row(validation, single("validation_accuracy"));
    const auto one_shot = std::find(alpha_.begin(), alpha_.end(), 1.0) - alpha_.begin();
    store::TensorFile file;
    file.tensors = {{"validation_accuracy", validation},
                    {"test_accuracy", test},
                    {"validation_correct", on_validation.correct},
                    {"test_correct", on_test.correct},
                    {"chosen_alpha", at::full({}, alpha_[static_cast<std::size_t>(chosen)], at::kDouble)},
                    {"absolute", test[chosen].mean()},
                    {"normalized", normalised[chosen].clone()},
                    {"one_shot_absolute", test[one_shot].mean()},
                    {"one_shot_normalized", normalised[one_shot].clone()}};
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

TAUGRID_EXPERIMENT(pair_addition, 100, make_pair_addition, pair_addition_outputs)
