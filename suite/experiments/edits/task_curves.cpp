// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/edits/task_curves.hpp"

#include <ATen/ATen.h>

#include "kernels/metrics/metrics.hpp"

namespace taugrid::experiments {

using study::Split;

Tally task_curve_tally(const Study& study, const Edit& edit, std::size_t t) {
  const auto points = study.settings.evaluation_points, a = edit.models();
  auto tally = Tally(study).stores(2 * a).stores(2 * a * study::bytes_of_bits(points), 1);
  for (const auto split : {Split::validation, Split::test}) tally.edited(edit, t, split, points);
  return tally;
}

store::TensorFile task_curve(
    schedule::UnitContext& context,
    const std::function<study::Outcome(Split, const std::function<void(double)>&)>& of) {
  store::TensorFile file;
  for (const auto split : {Split::validation, Split::test}) {
    const std::string name = study::split_name(split);
    const auto outcome = of(split, [&](double share) {
      context.stop_if_requested();
      context.progress((share + (split == Split::test)) / 2, "curve");
    });
    file.tensors[name] = outcome.accuracy;
    file.tensors[name + "_correct"] = outcome.correct;
  }
  return file;
}

std::vector<Output> curve_outputs(const std::string& scale) {
  return together({{{"alpha", "alpha", "1", "α of the curves", With{.scale = scale}},
                    {"validation_accuracy", "alpha task", "1", "on validation points", With{.correct = true}},
                    {"test_accuracy", "alpha task", "1", "on test points", With{.correct = true}},
                    {"absolute", "", "1", "mean accuracy on test points at the chosen α"},
                    {"normalized", "", "1", "mean normalised accuracy on test points at the chosen α"}},
                   both_sample_rows()});
}

TaskCurves put_task_curves(Results& out, const Finished& done, const Study& study, const std::string& group,
                           const std::string& regime, const std::vector<double>& alpha,
                           const std::function<std::string(const std::string&)>& key) {
  const auto points = study.settings.evaluation_points;
  std::vector<store::TensorFile> curves;
  std::vector<at::Tensor> own_validation, own_test;
  for (const auto t : study.tasks.all()) {
    curves.push_back(done.folder.read_unit(done.world, key(study.tasks.name(t))));
    const auto single = done.folder.read_unit(done.world, key::single_task(regime, study.tasks.name(t)));
    own_validation.push_back(single.tensors.at("validation_accuracy"));
    own_test.push_back(single.tensors.at("accuracy"));
  }
  const auto of = [&](const std::string& tensor) {
    std::vector<at::Tensor> columns;
    for (const auto& file : curves) columns.push_back(file.tensors.at(tensor));
    return at::stack(columns, 1);
  };
  out.put(group + "/alpha", alpha);
  for (const auto split : {Split::validation, Split::test}) {
    const std::string name = study::split_name(split);
    const auto path = group + "/" + name + "_accuracy";
    out.put(path, of(name));
    out.put("/correct" + path, of(name + "_correct"));
    out.put_points(path, sample_sizes(study, split, points));
    out.put(group + "/" + prefix_of(split) + "sample_index", study.samples.index(split, points));
  }
  TaskCurves result{of("test"), at::stack(own_test), 0};
  result.chosen = metrics::chosen_row(of("validation"), at::stack(own_validation));
  const auto test = result.test[result.chosen];
  out.put(group + "/absolute", metrics::mean_accuracy(test).item<double>());
  out.put(group + "/normalized", metrics::normalised_accuracy(test, result.own_test).item<double>());
  return result;
}

}  // namespace taugrid::experiments
