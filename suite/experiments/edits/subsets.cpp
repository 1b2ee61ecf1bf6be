// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// How interference grows with the number of tasks: for each size, random subsets of the tasks are drawn by
// the run's seed, the subset's vectors become one, τ (their sum, or merged by another method without data),
// and θ0 + ατ is evaluated on the subset's tasks alone; α has the subset's largest mean normalised accuracy
// on validation points, as for task addition.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/edits/chosen_edit.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"
#include "suite/study/task_sets.hpp"

namespace taugrid::experiments {
namespace {

/// The d-th set of so many tasks.
std::string subset_key(const std::string& regime, std::size_t size, std::size_t d) {
  return key::of("subsets", regime, std::to_string(size) + "-" + std::to_string(d));
}

std::vector<OutputGroup> subsets_outputs() {
  return {
      {"/subsets/R", "θ0 + ατ of random subsets of the tasks",
       together(
           {{{"sets", "task_set task", "",
              "1 where the task is of the subset, by ascending size as drawn, less those that [data] "
              "beat_majority leaves out",
              With{.element = Element::uint8}},
             {"alpha", "alpha", "1", "α of the merged vector", With{.scale = "alpha_subsets_R"}},
             {"validation_accuracy", "task_set alpha task", "1", "on validation points, NaN for other tasks"},
             {"accuracy", "task_set task", "1", "on test points at the chosen α, NaN for other tasks",
              With{.correct = true}},
             {"coefficient", "task_set", "1", "the chosen α"},
             {"absolute", "task_set", "1", "mean accuracy at the chosen α"},
             {"normalized", "task_set", "1", "mean normalised accuracy at the chosen α"},
             {"@merge", "", "", "how a subset's vectors became one"}},
            both_sample_rows()}),
       "[subsets]", 2}};
}

class Subsets final : public Experiment {
 public:
  Subsets(const Study& study, std::vector<study::TaskSet> sets, std::vector<double> alpha, ChosenMethod merge)
      : Experiment(study), sets_(std::move(sets)), alpha_(std::move(alpha)), merge_(std::move(merge)) {
    std::map<std::size_t, std::size_t> drawn;
    for (const auto& set : sets_) number_.push_back(drawn[set.size()]++);
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (std::size_t s = 0; s < sets_.size(); ++s) {
        auto needs = study::merged_needs(study_, name);
        for (const auto t : sets_[s]) {
          add_missing(needs, {key::single_task(name, study_.tasks.name(t))});
          add_missing(needs, Edit::along(name, sets_[s], alpha_).needs(study_, t));
        }
        units.push_back(unit(unit_key(name, s), tally(name, sets_[s]), needs,
                             [=, this, &folder](schedule::UnitContext& context) {
                               return compute(name, kept(name, sets_[s], folder), folder, context);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/subsets", study_.settings.vector_regimes,
                     {{"task_set", length_of(sets_)}, {"alpha", length_of(alpha_)}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto s = length_of(sets_);
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/subsets/" + name, accuracy = group + "/accuracy";
      std::vector<Box> boxes;
      for (std::int64_t k = 0; k < s; ++k)
        boxes.push_back({unit_key(name, static_cast<std::size_t>(k)), {k}});
      std::vector<study::TaskSet> sets;
      for (const auto& set : sets_) sets.push_back(kept(name, set, done.folder));
      out.put(group + "/sets", study::memberships(sets, study_.tasks.size()));
      out.put(group + "/alpha", alpha_);
      for (const auto* what : {"validation_accuracy", "accuracy", "coefficient", "absolute", "normalized"})
        out.place(done, group + "/" + what, boxes, what);
      out.place(done, "/correct" + accuracy, boxes, "correct");
      out.put_points(accuracy, sample_sizes(study_, Split::test, points()));
      out.attribute(group, "merge", merge_.method_name);
      for (const auto split : {Split::test, Split::validation})
        out.put(group + "/" + prefix_of(split) + "sample_index", study_.samples.index(split, points()));
    }
  }

 private:
  std::string unit_key(const std::string& name, std::size_t s) const {
    return subset_key(name, sets_[s].size(), number_[s]);
  }

  /// The tasks of the set that are merged.
  study::TaskSet kept(const std::string& name, const study::TaskSet& set,
                      const schedule::RunFolder& folder) const {
    if (!study_.settings.beat_majority) return set;
    const auto passing = study::merged_tasks(study_, folder, name);
    study::TaskSet both;
    std::set_intersection(set.begin(), set.end(), passing.begin(), passing.end(), std::back_inserter(both));
    return both;
  }

  Tally tally(const std::string& name, const study::TaskSet& set) const {
    Tally tally(study_);
    const auto a = static_cast<std::int64_t>(alpha_.size()),
               tasks = static_cast<std::int64_t>(study_.tasks.size());
    merging::count_merge(tally.visit(name, set), *merge_.method, name, set);
    const auto along = [&](const std::vector<double>& alpha) { return Edit::along(name, set, alpha); };
    for (const auto t : set) count_chosen(tally, along, alpha_, t);
    const auto numbers = tasks * (a + 1) + 3, bytes = tasks * study::bytes_of_bits(points());
    return tally.stores(numbers).stores(bytes, 1);
  }

  /// Accuracies and bits of all tasks, NaN and 0 for those that are none of the set's.
  store::TensorFile compute(const std::string& name, const study::TaskSet& set,
                            const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    at::Tensor tau;
    if (!set.empty()) {
      schedule::UnitContext quiet{context.group, context.stop, context.scratch,
                                  [](double, std::string_view) {}};
      tau = merge_.method->merge(merging::ModelsToMerge(study_, name, set), {}, quiet)
                .merged.tau.to(study_.device);
    }
    const EditedOutputs models(study_, folder, context.group);
    const auto along = [&](const std::vector<double>& alpha) { return Edit::along(name, set, alpha, tau); };
    return at_chosen_alpha_among_all(study_, set, alpha_, own_accuracies(study_, folder, name, set),
                                     outcomes_of(study_, models, along, context),
                                     [&](double share) { context.progress(share, "tasks"); });
  }

  std::vector<study::TaskSet> sets_;  // by ascending size
  std::vector<std::size_t> number_;   // of each among those of its size
  std::vector<double> alpha_;
  ChosenMethod merge_;
};

std::unique_ptr<Experiment> make_subsets(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "subsets", "Adds random subsets of the task vectors: accuracy on the subset's tasks, over its size");
  if (!section) return nullptr;
  study::require_vectors(study, "subsets");
  const auto tasks = std::max(1, static_cast<int>(study.tasks.size()));
  std::vector<double> doubled;
  for (int size = 1; size < tasks; size *= 2) doubled.push_back(size);
  doubled.push_back(tasks);
  const auto sizes =
      numbered(*section, "sizes",
               {"Numbers of tasks added",
                {.fallback = "1, 2, 4, 8, … T", .values = "a list of ascending integers from 1 to T"}},
               1, tasks, false, fmt::format("there are {} tasks", tasks), doubled);
  const auto draws = section->integer(
      "draws", "Subsets of each size, drawn by seed; all where there are not so many", 10, {1, 1e4});
  auto alpha =
      section->alpha_grid("alpha",
                          {"Coefficients α of θ0 + ατ; the best on validation is chosen, for each subset",
                           {.fallback = "0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1"}},
                          {0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1}, coefficients);
  auto merge =
      read_merge(config, "subsets.merge", "How a subset's vectors become one", "task_arithmetic", study);
  std::vector<study::TaskSet> sets;
  for (const auto size : sizes) {
    const auto drawn = study::task_sets(study, "subsets", static_cast<std::size_t>(size), draws);
    sets.insert(sets.end(), drawn.begin(), drawn.end());
    for (auto n = study.settings.beat_majority ? 1 : size; n <= size; ++n)  // of the tasks that are merged
      merge.method->check(fmt::format("subsets.merge.method, of subsets of {}", size),
                          std::vector<double>(static_cast<std::size_t>(n), 1.0));
  }
  return std::make_unique<Subsets>(study, std::move(sets), std::move(alpha), std::move(merge));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(subsets, 92, make_subsets, subsets_outputs)
