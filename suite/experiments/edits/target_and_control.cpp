// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/edits/target_and_control.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "suite/error.hpp"

namespace taugrid::experiments {
namespace {

std::string curve_of(Split split, bool target) {
  return std::string(study::split_name(split)) + (target ? "_target" : "_control");
}

bool same_alpha(double a, double b) { return std::abs(a - b) < 1e-9; }

void put_chosen(Results& out, const std::string& group, const std::vector<store::TensorFile>& files,
                const std::vector<double>& alpha, const std::vector<double>& range, double floor) {
  const auto rows = static_cast<std::int64_t>(files.size());
  auto chosen = at::full({rows}, std::nan(""), at::kDouble), target = chosen.clone(),
       control = chosen.clone();
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto& curves = files[static_cast<std::size_t>(r)].tensors;
    double least = 2;
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(alpha.size()); ++k) {
      const double a = alpha[static_cast<std::size_t>(k)];
      if (std::none_of(range.begin(), range.end(), [a](double b) { return same_alpha(a, b); })) continue;
      const double kept = curves.at("validation_control")[k].item<double>();
      const double left = curves.at("validation_target")[k].item<double>();
      if (kept < floor || left >= least) continue;
      least = left;
      chosen[r] = a;
      target[r] = curves.at("test_target")[k];
      control[r] = curves.at("test_control")[k];
    }
  }
  out.put(group + "/chosen_alpha", chosen);
  out.put(group + "/target", target);
  out.put(group + "/control", control);
}

}  // namespace

Tally target_and_control_tally(const Study& study, const Edit& edit, std::size_t t) {
  const auto points = study.settings.evaluation_points, control = study.settings.control_points;
  const auto a = edit.models();
  const auto bytes = 2 * a * (study::bytes_of_bits(points) + study::bytes_of_bits(control));
  auto tally = Tally(study).stores(4 * a).stores(bytes, 1);
  for (const auto split : {Split::validation, Split::test})
    for (const auto b : {t, study.tasks.control()}) tally.edited(edit, b, split, study.points(b));
  return tally;
}

std::vector<std::string> target_and_control_needs(const Study& study, const Edit& edit, std::size_t t) {
  auto needs = edit.needs(study, t);
  add_missing(needs, edit.needs(study, study.tasks.control()));
  return needs;
}

store::TensorFile target_and_control(const Study& study, const schedule::RunFolder& folder,
                                     schedule::UnitContext& context, const Edit& edit, std::size_t t) {
  const EditedOutputs models(study, folder, context.group);
  store::TensorFile file;
  int part = 0;
  for (const auto split : {Split::validation, Split::test}) {
    for (const bool target : {true, false}) {
      const auto curve = curve_of(split, target);
      const auto b = target ? t : study.tasks.control();
      const auto outcomes = models.outcomes(edit, b, split, study.points(b), [&](double share) {
        context.stop_if_requested();
        context.progress((share + part) / 4, curve);
      });
      file.tensors[curve] = outcomes.accuracy;
      file.tensors[curve + "_correct"] = outcomes.correct;
      ++part;
    }
  }
  return file;
}

ForgottenRows each_task(const Study& study, const std::function<std::string(const std::string&)>& key) {
  ForgottenRows rows{study.tasks.all(), {}};
  for (const auto t : rows.tasks) rows.keys.push_back(key(study.tasks.name(t)));
  return rows;
}

std::vector<Output> forgotten_outputs(const std::string& rows, const std::string& scale) {
  const auto curve = [&](const std::string& name, const std::string& meaning) {
    return Output{name, rows + " alpha", "1", "accuracy on " + meaning, With{.correct = true}};
  };
  const auto control_rows = [](const std::string& split, const std::string& prefix) {
    return Output{prefix + "control_sample_index", prefix + "control_point", "",
                  "rows of the control's " + split + " points", With{.element = Element::int64}};
  };
  return together({{{"alpha", "alpha", "1", "α of the curves, and of the choice", With{.scale = scale}},
                    curve("validation_target", "the task's validation points"),
                    curve("validation_control", "the control's validation points"),
                    curve("test_target", "the task's test points"),
                    curve("test_control", "the control's test points"),
                    {"chosen_alpha", rows, "1",
                     "of the α that keep the control on validation points, the one that leaves least of the "
                     "task; NaN where "
                     "none does"},
                    {"target", rows, "1", "test accuracy on the task at chosen_alpha"},
                    {"control", rows, "1", "test accuracy on the control at chosen_alpha"},
                    {"@control", "", "", "the control task's name"},
                    {"@control_threshold", "", "", "the part of θ0's accuracy on the control that is kept"},
                    control_rows("test", ""),
                    control_rows("validation", "validation_")},
                   both_sample_rows()});
}

void put_target_and_control(Results& out, const Finished& done, const Study& study, const std::string& group,
                            const std::vector<double>& alpha, const std::vector<ControlledRange>& ranges,
                            double threshold, const ForgottenRows& rows) {
  const auto points = study.settings.evaluation_points, control_points = study.settings.control_points;
  out.put(group + "/alpha", alpha);
  std::vector<store::TensorFile> files;
  for (const auto& key : rows.keys) files.push_back(done.folder.read_unit(done.world, key));
  const auto of = at::tensor(std::vector<std::int64_t>(rows.tasks.begin(), rows.tasks.end()), at::kLong);
  for (const auto split : {Split::validation, Split::test}) {
    for (const bool target : {true, false}) {
      const auto curve = curve_of(split, target), path = group + "/" + curve;
      std::vector<at::Tensor> curves, correct;
      for (const auto& file : files) {
        curves.push_back(file.tensors.at(curve));
        correct.push_back(file.tensors.at(curve + "_correct"));
      }
      out.put(path, at::stack(curves));
      out.put("/correct" + path, at::stack(correct));
      out.put_points(
          path,
          target ? sample_sizes(study, split, points).index_select(0, of).unsqueeze(1)
                 : at::tensor(study.samples.size(study.tasks.control(), split, control_points), at::kLong));
    }
  }
  const auto start = done.folder.read_unit(done.world, control_at_start(study));
  const double floor = threshold * start.tensors.at("validation_accuracy").item<double>();
  for (const auto& range : ranges)
    put_chosen(out, range.subgroup.empty() ? group : group + "/" + range.subgroup, files, alpha, range.alpha,
               floor);
  out.attribute(group, "control", study.settings.control);
  out.attribute(group, "control_threshold", threshold);
  for (const auto split : {Split::test, Split::validation}) {
    const auto prefix = prefix_of(split);
    out.put(group + "/" + prefix + "sample_index", study.samples.index(split, points));
    out.put(group + "/" + prefix + "control_sample_index",
            study.samples.rows(study.tasks.control(), split, control_points));
  }
}

void put_cosines(Results& out, const Finished& done, const std::string& group, const ForgottenRows& rows) {
  std::vector<at::Tensor> cosines;
  for (const auto& key : rows.keys)
    cosines.push_back(done.folder.read_unit(done.world, key).tensors.at("cosine"));
  out.put(group + "/cosine", at::stack(cosines));
}

std::vector<double> read_wide_alpha(config::Section& section, const std::string& key,
                                    config::Meaning meaning) {
  std::vector<double> usual;
  for (int k = 0; k <= 30; ++k) usual.push_back(0.1 * k);
  meaning.in_words.fallback = "0, 0.1, … 3";
  return section.alpha_grid(key, meaning, usual, {0, 1e3});
}

std::vector<double> minus(std::vector<double> alpha) {
  for (auto& a : alpha) a = -a;
  return alpha;
}

std::string control_at_start(const Study& study) {
  return key::single_task(study.model.name(), study.settings.control);
}

void require_control(const Study& study, const std::string& section) {
  if (study.tasks.has_control()) return;
  throw InputError("section [" + section +
                   "] needs a control task: name one in data.control, not one of data.tasks");
}

double control_threshold(config::Section& section) {
  return section.real("control_threshold", "Part of θ0's accuracy on the control that the chosen α must keep",
                      0.95, {0, 1});
}

}  // namespace taugrid::experiments
