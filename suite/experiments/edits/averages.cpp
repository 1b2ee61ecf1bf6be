// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Averages and ensembles (paper 5, section 4.1): of the models θₖ of a set of k tasks,
//   weights    f(1/k Σ θₖ),
//   logits     1/k Σ logits of f(θₖ),
//   features   the logits of 1/k Σ f(θₖ), f being the encoder's output,
// on the test points of each of the set's tasks, over all pairs, triples, and the set of all tasks. Where
// cross-task linearity holds up to the output, the first and the last are the same model. A single model's
// outputs are made once a task, for all sets. Where tasks are several fine-tunings of one task (paper 5,
// figure 4), a set is looked at on their common points once, as the first one's. With θ0 as one more model,
//   u = f(θ0 + 1/(k+1) Σ τₖ),   v = 1/(k+1) (f(θ0) + Σ f(θₖ)),
// which theorem 4.3 says are alike: the sum of τₖ is taken apart into what each does alone.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "suite/experiments/experiment.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/correctness.hpp"
#include "suite/study/refusals.hpp"
#include "suite/study/task_sets.hpp"

namespace taugrid::experiments {
namespace {

std::string averages_key(const std::string& regime, const std::string& task) {
  return key::of("averages", regime, task);
}

std::vector<OutputGroup> averages_outputs() {
  const auto nothing = ", NaN where the task is none of the set's or has the data of an earlier one";
  return {{"/averages/R",
           "accuracy of averages and ensembles of a set's models, on test points",
           {{"sets", "task_set task", "", "1 where the task is of the set", With{.element = Element::uint8}},
            {"weights", "task_set task", "1", std::string("of f(1/k Σ θₖ)") + nothing, With{.correct = true}},
            {"logits", "task_set task", "1", std::string("of 1/k Σ logits of f(θₖ)") + nothing,
             With{.correct = true}},
            {"features", "task_set task", "1", std::string("of the logits of 1/k Σ f(θₖ)") + nothing,
             With{.correct = true}},
            {"gap", "task_set task", "1", std::string("‖u − v‖/‖v − f(θ0)‖, mean over points") + nothing},
            sample_rows()},
           "[averages]",
           2}};
}

const std::vector<std::string> kinds = {"weights", "logits", "features"};

class Averages final : public Experiment {
 public:
  Averages(const Study& study, std::vector<study::TaskSet> sets)
      : Experiment(study), sets_(std::move(sets)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (const auto t : study_.tasks.all()) {
        units.push_back(unit(averages_key(name, study_.tasks.name(t)), tally(name, t),
                             Edit::together(name, study_.tasks.all(), {1}).needs(study_, t),
                             [this, name, t, &folder](schedule::UnitContext& context) {
                               return compute(name, t, folder, context);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/averages", study_.settings.vector_regimes, {{"task_set", length_of(sets_)}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    const auto member = study::memberships(sets_, study_.tasks.size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/averages/" + name;
      std::vector<Box> boxes;
      for (std::int64_t t = 0; t < tasks; ++t)
        boxes.push_back({averages_key(name, study_.tasks.name(static_cast<std::size_t>(t))), {0, t}});
      out.put(group + "/sets", member);
      for (const auto& kind : kinds) {
        const auto path = group + "/" + kind;
        out.place(done, path, boxes, kind);
        out.place(done, "/correct" + path, boxes, kind + "_correct");
        out.put_points(path, sample_sizes(study_, Split::test, points()));
      }
      out.place(done, group + "/gap", boxes, "gap");
      out.put(group + "/sample_index", study_.samples.index(Split::test, points()));
    }
  }

 private:
  Tally tally(const std::string& name, std::size_t t) const {
    Tally tally(study_);
    for (const auto k : members(t)) tally.edited(Edit::fine_tuned(name, k), t, Split::test, points());
    const auto n = study_.samples.size(t, Split::test, points());
    for (const auto& set : sets_) {
      if (!holds(set, t)) continue;
      for (const auto count : {set.size(), set.size() + 1})  // without θ0 and with it
        tally.edited(mean(name, set, count), t, Split::test, points());
      tally.logits(t, n, 2);
    }
    tally.edited(Edit::start(name), t, Split::test, points());
    const auto outputs = n * study_.readouts.of(t).width(study_.model.encoder());
    const auto numbers = static_cast<std::int64_t>(kinds.size() * sets_.size()),
               gaps = static_cast<std::int64_t>(sets_.size());
    tally.holds(4.0 * static_cast<double>(outputs * static_cast<std::int64_t>(study_.tasks.size())));
    tally.stores(numbers + gaps);
    return tally.stores(numbers * study::bytes_of_bits(points()), 1);
  }

  /// θ0 + 1/count Σ τ over the set. The vectors of all tasks need not fit into memory: they are summed block
  /// by block, but for those of a linear regime, whose tangents are there already.
  static Edit mean(const std::string& name, const study::TaskSet& set, std::size_t count) {
    const std::vector<double> alpha = {1 / static_cast<double>(count)};
    return regime(name).linear ? Edit::together(name, set, alpha) : Edit::sum(name, set, alpha);
  }

  /// Whether the set is looked at on task t's points: as one of its tasks, the first that has these points.
  bool holds(const study::TaskSet& set, std::size_t t) const {
    const auto alike = [&](std::size_t k) {
      return study_.tasks.first_alike(k) == study_.tasks.first_alike(t);
    };
    const auto first = std::find_if(set.begin(), set.end(), alike);
    return first != set.end() && *first == t;
  }

  /// The models of all sets that are looked at on task t's points.
  study::TaskSet members(std::size_t t) const {
    std::set<std::size_t> all;
    for (const auto& set : sets_)
      if (holds(set, t)) all.insert(set.begin(), set.end());
    return {all.begin(), all.end()};
  }

  /// Accuracies and gaps [S,1] and bits [S,1,bytes] on task t's points, of every kind.
  store::TensorFile compute(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                            schedule::UnitContext& context) const {
    const at::NoGradGuard no_grad;
    const EditedOutputs models(study_, folder, context.group);
    const auto sample = study_.sample(name, t, Split::test, points());
    const auto& labels = sample.labels;
    const auto& readout = study_.readouts.of(t);
    const auto output = [&](const Edit& edit) { return models.output(edit, t, Split::test, points()); };
    std::vector<at::Tensor> outputs(study_.tasks.size()), logits(study_.tasks.size());  // of single models
    for (const auto k : members(t)) {
      context.stop_if_requested();
      outputs[k] = output(mean(name, {k}, 1));
      logits[k] = readout.logits(outputs[k]);
    }
    const auto base = output(Edit::start(name)).to(at::kDouble);  // f(θ0)
    const auto mean_of = [](const std::vector<at::Tensor>& all, const study::TaskSet& set) {
      auto sum = all[set.front()].to(at::kDouble);
      for (std::size_t k = 1; k < set.size(); ++k) sum.add_(all[set[k]]);
      return sum.div_(static_cast<double>(set.size())).to(all[set.front()].scalar_type());
    };
    const auto gap = [&](const study::TaskSet& set) {
      const auto parts = static_cast<double>(set.size() + 1);
      const auto u = output(mean(name, set, set.size() + 1)).to(at::kDouble);
      auto v = base.clone();
      for (const auto k : set) v.add_(outputs[k]);
      v.div_(parts);
      return ((u - v).norm(2, 1) / (v - base).norm(2, 1)).mean();
    };
    const auto s = static_cast<std::int64_t>(sets_.size());
    store::TensorFile file;
    file.tensors["gap"] = at::full({s, 1}, std::nan(""), at::kDouble);
    for (const auto& kind : kinds) {
      file.tensors[kind] = at::full({s, 1}, std::nan(""), at::kDouble);
      file.tensors[kind + "_correct"] = at::zeros({s, 1, study::bytes_of_bits(points())}, at::kByte);
    }
    for (std::int64_t k = 0; k < s; ++k) {
      const auto& set = sets_[static_cast<std::size_t>(k)];
      if (!holds(set, t)) continue;
      context.stop_if_requested();
      const std::vector<at::Tensor> kind_logits = {readout.logits(output(mean(name, set, set.size()))),
                                                   mean_of(logits, set),
                                                   readout.logits(mean_of(outputs, set))};
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        const auto outcome = study::outcome(readout, kind_logits[i], labels, points());
        file.tensors[kinds[i]][k][0].copy_(outcome.accuracy);
        file.tensors[kinds[i] + "_correct"][k][0].copy_(outcome.correct);
      }
      file.tensors["gap"][k][0].copy_(gap(set));
      context.progress(static_cast<double>(k + 1) / static_cast<double>(s), "set");
    }
    return file;
  }

  std::vector<study::TaskSet> sets_;
};

std::unique_ptr<Experiment> make_averages(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "averages", "Averages of weights against ensembles of logits and of features, over sets of tasks");
  if (!section) return nullptr;
  study::require_vectors(study, "averages");
  study::require_classes(study, "averages");
  const auto most = section->integer("sets",
                                     "At most so many pairs of tasks, and so many triples, drawn by seed; "
                                     "the set of all tasks comes besides",
                                     128, {1, 1e5});
  const auto tasks = study.tasks.size();
  std::vector<study::TaskSet> chosen;
  for (const auto size : std::set<std::size_t>{2, 3, tasks}) {
    if (size < 2) continue;
    const auto sets = study::task_sets(study, "averages", size, most);
    chosen.insert(chosen.end(), sets.begin(), sets.end());
  }
  if (chosen.empty()) return nullptr;  // one task has nobody to be averaged with
  return std::make_unique<Averages>(study, std::move(chosen));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(averages, 97, make_averages, averages_outputs)
