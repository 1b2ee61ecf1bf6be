// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/edits/chosen_edit.hpp"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/metrics/metrics.hpp"
#include "suite/study/merged_tasks.hpp"

namespace taugrid::experiments {

using study::Split;

OwnAccuracies own_accuracies(const Study& study, const schedule::RunFolder& folder, const std::string& regime,
                             const std::vector<std::size_t>& tasks) {
  std::vector<at::Tensor> validation, test;
  for (const auto t : tasks) {
    const auto single = key::single_task(regime, study.tasks.name(t));
    validation.push_back(folder.read_tensor(single, "validation_accuracy"));
    test.push_back(folder.read_tensor(single, "accuracy"));
  }
  return tasks.empty() ? OwnAccuracies{} : OwnAccuracies{at::stack(validation), at::stack(test)};
}

OutcomesOf outcomes_of(const Study& study, const EditedOutputs& models, EditAt edit,
                       const schedule::UnitContext& context) {
  return [&study, &models, edit = std::move(edit), &context](std::size_t t, Split split,
                                                             const std::vector<double>& alpha) {
    return models.outcomes(edit(alpha), t, split, study.settings.evaluation_points,
                           [&context](double) { context.stop_if_requested(); });
  };
}

void count_chosen(Tally& tally, const EditAt& edit, const std::vector<double>& alpha, std::size_t t,
                  std::int64_t times) {
  const auto points = tally.study().settings.evaluation_points;
  tally.edited(edit(alpha), t, Split::validation, points, times)
      .edited(edit({1}), t, Split::test, points, times);
}

store::TensorFile at_chosen_alpha(const std::vector<std::size_t>& tasks, const std::vector<double>& alpha,
                                  const OwnAccuracies& single, const OutcomesOf& of,
                                  const std::function<void(double)>& progress) {
  double seen = 0;
  const auto outcomes = [&](Split split, const std::vector<double>& grid) {
    std::vector<at::Tensor> accuracy, correct;
    for (const auto t : tasks) {
      auto outcome = of(t, split, grid);
      accuracy.push_back(std::move(outcome.accuracy));
      correct.push_back(std::move(outcome.correct));
      progress(++seen / static_cast<double>(2 * tasks.size()));
    }
    return study::Outcome{at::stack(accuracy, 1), at::stack(correct, 1)};
  };
  const auto validation = outcomes(Split::validation, alpha).accuracy;
  const double chosen = alpha[static_cast<std::size_t>(metrics::chosen_row(validation, single.validation))];
  const auto test = outcomes(Split::test, {chosen});
  const auto accuracy = test.accuracy[0];
  store::TensorFile file;
  file.tensors = {{"validation_accuracy", validation},
                  {"accuracy", accuracy.contiguous()},
                  {"correct", test.correct[0].contiguous()},
                  {"coefficient", at::full({}, chosen, at::kDouble)},
                  {"absolute", accuracy.mean()},
                  {"normalized", metrics::normalised_accuracy(accuracy, single.test)}};
  return file;
}

store::TensorFile at_chosen_alpha_among_all(const Study& study, const std::vector<std::size_t>& tasks,
                                            const std::vector<double>& alpha, const OwnAccuracies& single,
                                            const OutcomesOf& of,
                                            const std::function<void(double)>& progress) {
  const auto count = study.tasks.size();
  if (!tasks.empty()) {
    auto file = at_chosen_alpha(tasks, alpha, single, of, progress);
    auto& tensors = file.tensors;
    tensors["validation_accuracy"] =
        study::among_all(tensors["validation_accuracy"], 1, tasks, count, std::nan(""));
    tensors["accuracy"] = study::among_all(tensors["accuracy"], 0, tasks, count, std::nan(""));
    tensors["correct"] = study::among_all(tensors["correct"], 0, tasks, count, 0);
    return file;
  }
  const auto all = static_cast<std::int64_t>(count), a = static_cast<std::int64_t>(alpha.size());
  const auto nan = [](std::vector<std::int64_t> shape) { return at::full(shape, std::nan(""), at::kDouble); };
  store::TensorFile file;
  file.tensors = {
      {"validation_accuracy", nan({a, all})},
      {"accuracy", nan({all})},
      {"correct", at::zeros({all, study::bytes_of_bits(study.settings.evaluation_points)}, at::kByte)}};
  for (const auto* what : {"coefficient", "absolute", "normalized"}) file.tensors[what] = nan({});
  return file;
}

}  // namespace taugrid::experiments
