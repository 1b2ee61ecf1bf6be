// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task negation (papers 1 and 3): θ0 − α τt. Of the α whose accuracy on the control task is at least 95 % of
// θ0's on validation points, the one with the least accuracy on task t; then both are measured on test
// points. Two ranges of α, as the papers differ: {0, 0.05, …, 1} (paper 1) and {0, 0.1, …, 3} (paper 3,
// "wide"). All curves are stored, over the union. Where no α keeps the control, all of the task's numbers are
// NaN.
//
// /negation/R/alpha [A], validation_target, validation_control, test_target, test_control [T,A];
// chosen_alpha, target, control [T]; wide/chosen_alpha, wide/target, wide/control [T]; /correct/… [T,A,⌈N/8⌉]
// beside the curves
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "suite/error.hpp"
#include "suite/experiments/support/placement.hpp"

namespace taugrid::experiments {
namespace {

class Negation final : public Experiment {
 public:
  Negation(const Study& study, std::vector<double> narrow, std::vector<double> wide, double threshold)
      : Experiment(study), narrow_(std::move(narrow)), wide_(std::move(wide)), threshold_(threshold) {
    alpha_ = narrow_;
    alpha_.insert(alpha_.end(), wide_.begin(), wide_.end());
    std::sort(alpha_.begin(), alpha_.end());
    alpha_.erase(std::unique(alpha_.begin(), alpha_.end(), same), alpha_.end());
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto a = static_cast<std::int64_t>(alpha_.size());
    for (const auto& name : study_.settings.vector_regimes) {
      for (std::size_t t = 0; t < study_.tasks.size(); ++t) {
        auto tally = Tally(study_).stores(4 * a).publishes(4 * a + 6 + 2 * points());
        const auto bytes = 2 * a * (study::bytes_of_bits(points()) + study::bytes_of_bits(control_points()));
        tally.stores(bytes, 1).publishes(bytes, 1);
        for (const auto split : {Split::validation, Split::test}) {
          for (const auto b : {t, study_.tasks.control()})
            tally.edited(name, {t}, b, split, study_.points(b), a);
        }
        auto needs = EditedOutputs::needs(study_, name, {t}, t);
        for (auto& each : EditedOutputs::needs(study_, name, {t}, study_.tasks.control()))
          if (std::find(needs.begin(), needs.end(), each) == needs.end()) needs.push_back(std::move(each));
        units.push_back(unit(key::negation(name, study_.tasks.name(t)), tally, needs,
                             [this, name, t, &folder](schedule::UnitContext& context) {
                               return curves(name, t, folder, context);
                             }));
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    const auto control =
        done.folder.read_unit(done.world, key::single_task(study_.model.name(), study_.settings.control));
    const double floor = threshold_ * control.tensors.at("validation_accuracy").item<double>();
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/negation/" + name;
      const auto axis = group + "/alpha";
      out.scale(axis, at::tensor(alpha_, at::kDouble), "alpha_negation_" + name, "1");
      std::vector<store::TensorFile> files;
      for (std::size_t t = 0; t < study_.tasks.size(); ++t)
        files.push_back(done.folder.read_unit(done.world, key::negation(name, study_.tasks.name(t))));
      for (const auto split : {Split::validation, Split::test}) {
        for (const bool target : {true, false}) {
          const auto curve = curve_of(split, target), path = group + "/" + curve;
          std::vector<at::Tensor> rows, correct;
          for (const auto& file : files) {
            rows.push_back(file.tensors.at(curve));
            correct.push_back(file.tensors.at(curve + "_correct"));
          }
          out.put(path, at::stack(rows), {"task", axis}, "1");
          out.put("/correct" + path, at::stack(correct), {"task", axis, bits});
          put_points(
              out, path,
              target ? sample_sizes(study_, split, points()).unsqueeze(1)
                     : at::tensor(study_.tasks.sample_size(study_.tasks.control(), split, control_points()),
                                  at::kLong));
        }
      }
      choose(out, group, files, narrow_, floor);
      choose(out, group + "/wide", files, wide_, floor);
      out.attribute(group, "control", study_.settings.control);
      out.attribute(group, "control_threshold", threshold_);
      for (const auto split : {Split::test, Split::validation}) {
        const std::string prefix = split == Split::test ? "" : "validation_";
        out.put(group + "/" + prefix + "sample_index", study_.tasks.sample_index(split, points()),
                {"task", "evaluation_point"});
        out.put(group + "/" + prefix + "control_sample_index",
                study_.tasks.sample_rows(study_.tasks.control(), split, control_points()),
                {prefix + "control_point"});
      }
    }
  }

 private:
  static bool same(double a, double b) { return std::abs(a - b) < 1e-9; }

  static std::string curve_of(Split split, bool target) {
    return std::string(study::split_name(split)) + (target ? "_target" : "_control");
  }

  store::TensorFile curves(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                           schedule::UnitContext& context) const {
    const EditedOutputs model(study_, folder, name, context.group);
    const auto grid = -at::tensor(alpha_, at::kDouble).view({-1, 1});
    store::TensorFile file;
    int part = 0;
    for (const auto split : {Split::validation, Split::test}) {
      for (const bool target : {true, false}) {
        const auto curve = curve_of(split, target);
        const auto b = target ? t : study_.tasks.control();
        const auto found = model.outcomes({t}, grid, b, split, study_.points(b), [&](double share) {
          context.stop_if_requested();
          context.progress((share + part) / 4, curve);
        });
        file.tensors[curve] = found.accuracy;
        file.tensors[curve + "_correct"] = found.correct;
        ++part;
      }
    }
    return file;
  }

  /// Over the coefficients of one range; ties go to the smaller α.
  void choose(store::ResultsWriter& out, const std::string& group,
              const std::vector<store::TensorFile>& files, const std::vector<double>& range,
              double floor) const {
    const auto tasks = static_cast<std::int64_t>(files.size());
    auto alpha = at::full({tasks}, std::nan(""), at::kDouble), target = alpha.clone(),
         control = alpha.clone();
    for (std::int64_t t = 0; t < tasks; ++t) {
      const auto& curves = files[static_cast<std::size_t>(t)].tensors;
      double least = 2;
      for (std::int64_t k = 0; k < static_cast<std::int64_t>(alpha_.size()); ++k) {
        const double a = alpha_[static_cast<std::size_t>(k)];
        if (std::none_of(range.begin(), range.end(), [a](double b) { return same(a, b); })) continue;
        const double kept = curves.at("validation_control")[k].item<double>();
        const double left = curves.at("validation_target")[k].item<double>();
        if (kept < floor || left >= least) continue;
        least = left;
        alpha[t] = a;
        target[t] = curves.at("test_target")[k];
        control[t] = curves.at("test_control")[k];
      }
    }
    out.put(group + "/chosen_alpha", alpha, {"task"}, "1");
    out.put(group + "/target", target, {"task"}, "1");
    out.put(group + "/control", control, {"task"}, "1");
  }

  std::vector<double> narrow_, wide_, alpha_;
  double threshold_;
};

std::unique_ptr<Experiment> make_negation(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "negation", "Subtracts each task vector: accuracy of θ0 − α τ on its task and on the control");
  if (!section) return nullptr;
  require_vectors(study, "negation");
  if (!study.tasks.has_control()) {
    throw InputError(
        "section [negation] needs a control task: name one in data.control, not one of data.tasks");
  }
  std::vector<double> narrow, wide;
  for (int k = 0; k <= 20; ++k) narrow.push_back(0.05 * k);
  for (int k = 0; k <= 30; ++k) wide.push_back(0.1 * k);
  narrow = section->alpha_grid(
      "alpha", {"Coefficients, in the range of paper 1", {.fallback = "0, 0.05, … 1"}}, narrow, {0, 1e3});
  wide = section->alpha_grid(
      "wide_alpha", {"Coefficients, in the range of paper 3", {.fallback = "0, 0.1, … 3"}}, wide, {0, 1e3});
  const auto threshold = section->real(
      "control_threshold", "Part of θ0's accuracy on the control that the chosen α must keep", 0.95, {0, 1});
  return std::make_unique<Negation>(study, narrow, wide, threshold);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(negation, 110, make_negation)
