// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// All partitions of a few tasks (paper 2, section 6.3; tables 4, 7, 10, 13, 14; 15 of four): each cluster's
// vectors become one basis by several methods in turn, the bases one model θ0 + ατ by [bases.merge_out],
// which is evaluated on these tasks; α has their largest mean normalised accuracy on validation points.
// Beside the methods of [bases.merge_in] there is
//   joint  one model trained on a cluster's tasks together, for as many steps as each of them alone has taken
//          together (the paper's MTL; of a linear regime its Tangent).
// To each of the run's other tasks every cluster's basis is added, θ0 + αB: of a partition counts the basis
// whose cosine with the task's vector is the largest.
//
// /every_partition/METHOD/R/member int64 [n] and other int64 [H]: the tasks, and those held out; labels int64
// [Q,n], the partitions; cluster uint8 [C,n], all sets of the tasks; alpha [A]; validation_accuracy [Q,A,n],
// accuracy [Q,n] on test points, coefficient, absolute, normalized [Q]; cosine [H,C] of a held-out task with
// each cluster's basis; held_alpha [A'], held_validation, held_test [H,C,A']; nearest int64 [H,Q], a place in
// `cluster`; found int64 [H,Q]; one_shot, tuned, chosen_alpha [H,Q]: with the nearest basis
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/metrics/metrics.hpp"
#include "suite/experiments/support/chosen_edit.hpp"
#include "suite/experiments/support/grids.hpp"
#include "suite/experiments/support/partition_bases.hpp"
#include "suite/experiments/support/placement.hpp"
#include "suite/experiments/support/task_filter.hpp"

namespace taugrid::experiments {
namespace {

class EveryPartition final : public Experiment {
 public:
  struct Settings {
    std::vector<std::size_t> tasks, others;
    std::vector<BasisMerge> methods;  ///< joint by its name alone
    BasisMerge out;
    std::vector<double> alpha, held_alpha;
    double threshold = 0;
  };
  EveryPartition(const Study& study, Settings settings, JointModels joint_models)
      : Experiment(study),
        settings_(std::move(settings)),
        bases_(study, settings_.tasks, std::move(joint_models)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (const auto& method : settings_.methods) {
        if (!PartitionBases::takes(method, name)) continue;
        bases_.add_units(units, folder, method, name);
        const auto made = bases_.needs(method, name);
        for (std::size_t p = 0; p < bases_.partitions().size(); ++p)
          add_merge(units, folder, name, method, p, made);
        for (const auto t : settings_.others) add_transfer(units, folder, name, method, t, made);
      }
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      for (const auto& method : settings_.methods)
        if (PartitionBases::takes(method, name)) write(out, done, name, method);
    }
  }

 private:
  using Places = std::vector<std::int64_t>;

  void add_merge(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                 const std::string& name, const BasisMerge& method, std::size_t p,
                 const std::vector<std::string>& made) const {
    const auto a = static_cast<std::int64_t>(settings_.alpha.size()),
               n = static_cast<std::int64_t>(settings_.tasks.size());
    Tally tally(study_);
    for (const auto c : bases_.clusters_of(p)) bases_.count(tally, method, name, bases_.cluster(c).size());
    tally.visit(name, settings_.tasks).stores(n * (a + 1) + 3).publishes(n * (a + 1) + 3);
    tally.holds(4.0 * static_cast<double>(study_.model.layout().size() * (n + 1)));
    auto needs = made;
    for (const auto t : settings_.tasks) {
      tally.edited_along(name, settings_.tasks, t, Split::validation, points(), a)
          .edited_along(name, settings_.tasks, t, Split::test, points(), 1);
      needs.push_back(key::single_task(name, study_.tasks.name(t)));
      add_missing(needs, EditedOutputs::sum_needs(study_, name, settings_.tasks, t));
    }
    units.push_back(unit(key::partition_merge(method.name, name, p), tally, needs,
                         [this, name, &method, p, &folder](schedule::UnitContext& context) {
                           return merged(name, method, p, folder, context);
                         }));
  }

  store::TensorFile merged(const std::string& name, const BasisMerge& method, std::size_t p,
                           const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    std::vector<at::Tensor> bases;
    for (const auto c : bases_.clusters_of(p))
      bases.push_back(bases_.basis(method, name, bases_.cluster(c), folder, context));
    const auto tau = merged_bases(study_, name, settings_.tasks, std::move(bases), settings_.out, context);
    const EditedOutputs model(study_, folder, name, context.group);
    auto file = at_chosen_alpha(
        settings_.tasks, settings_.alpha, own_accuracies(study_, folder, name, settings_.tasks),
        [&](std::size_t t, Split split, const std::vector<double>& alpha) {
          return model.merged_outcomes(settings_.tasks, tau, alpha, t, split, points(),
                                       [&](double) { context.stop_if_requested(); });
        });
    file.tensors.erase("correct");
    return file;
  }

  void add_transfer(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                    const std::string& name, const BasisMerge& method, std::size_t t,
                    const std::vector<std::string>& made) const {
    const auto a = static_cast<std::int64_t>(settings_.held_alpha.size()),
               c = static_cast<std::int64_t>(bases_.clusters());
    Tally tally(study_);
    for (std::size_t i = 0; i < bases_.clusters(); ++i)
      bases_.count(tally, method, name, bases_.cluster(i).size());
    tally.visit(name, settings_.tasks).vectors(name, {t}).stores(c * (2 * a + 1)).publishes(c * (2 * a + 1));
    for (const auto split : {Split::validation, Split::test})
      for (std::int64_t i = 0; i < c; ++i) tally.edited_along(name, settings_.tasks, t, split, points(), a);
    auto needs = made;
    add_missing(needs, study_.vectors.needs(name, {t}));
    add_missing(needs, EditedOutputs::sum_needs(study_, name, settings_.tasks, t));
    units.push_back(unit(key::partition_transfer(method.name, name, study_.tasks.name(t)), tally, needs,
                         [this, name, &method, t, &folder](schedule::UnitContext& context) {
                           return transferred(name, method, t, folder, context);
                         }));
  }

  store::TensorFile transferred(const std::string& name, const BasisMerge& method, std::size_t t,
                                const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const EditedOutputs model(study_, folder, name, context.group);
    std::vector<at::Tensor> cosines, validation, test;
    for (std::size_t c = 0; c < bases_.clusters(); ++c) {
      const auto members = bases_.cluster(c);
      const auto found = bases_.basis(method, name, members, folder, context);
      cosines.push_back(cosines_with(study_.vectors.vector(name, t).cpu(), {found})[0]);
      const auto tau = found.to(study_.device);
      for (const auto split : {Split::validation, Split::test}) {
        auto curve = model.merged_outcomes(members, tau, settings_.held_alpha, t, split, points(),
                                           [&](double) { context.stop_if_requested(); });
        (split == Split::test ? test : validation).push_back(std::move(curve.accuracy));
      }
      context.progress(static_cast<double>(c + 1) / static_cast<double>(bases_.clusters()), "bases");
    }
    store::TensorFile file;
    file.tensors = {{"cosine", at::stack(cosines)},
                    {"held_validation", at::stack(validation)},
                    {"held_test", at::stack(test)}};
    return file;
  }

  void write(store::ResultsWriter& out, const Finished& done, const std::string& name,
             const BasisMerge& method) const {
    const auto group = "/every_partition/" + method.name + "/" + name, alpha = group + "/alpha",
               held = group + "/held_alpha", end = method.name + "_" + name;
    out.scale(alpha, at::tensor(settings_.alpha, at::kDouble), "alpha_partition_" + end, "1");
    const auto numbers = [](const std::vector<std::size_t>& tasks) {
      return at::tensor(Places(tasks.begin(), tasks.end()), at::kLong);
    };
    out.put(group + "/member", numbers(settings_.tasks), {"member"});
    std::vector<at::Tensor> labels;
    for (const auto& one : bases_.partitions()) labels.push_back(at::tensor(one, at::kLong));
    out.put(group + "/labels", at::stack(labels), {"every_partition", "member"}, "1");
    auto sets = at::zeros(
        {static_cast<std::int64_t>(bases_.clusters()), static_cast<std::int64_t>(settings_.tasks.size())},
        at::kByte);
    for (std::int64_t c = 0; c < sets.size(0); ++c)
      for (std::int64_t i = 0; i < sets.size(1); ++i) sets[c][i].fill_((c + 1) >> i & 1);
    out.put(group + "/cluster", sets, {"cluster", "member"}, "1");
    std::map<std::string, std::vector<at::Tensor>> rows;
    for (std::size_t p = 0; p < bases_.partitions().size(); ++p) {
      const auto found =
          done.folder.read_unit(done.world, key::partition_merge(method.name, name, p)).tensors;
      for (const auto& [what, values] : found) rows[what].push_back(values);
    }
    for (const auto& [what, values] : rows) {
      std::vector<std::string> dimensions = {"every_partition"};
      if (what == "validation_accuracy") dimensions.push_back(alpha);
      if (values.front().dim() > 0) dimensions.emplace_back("member");
      out.put(group + "/" + what, at::stack(values), dimensions, "1");
    }
    for (const auto split : {Split::test, Split::validation})
      out.put(group + "/" + prefix_of(split) + "sample_index", study_.tasks.sample_index(split, points()),
              {"task", "evaluation_point"});
    out.attribute(group, "merge_out", settings_.out.name);
    out.attribute(group, "threshold", settings_.threshold);
    if (!settings_.others.empty()) {
      out.put(group + "/other", numbers(settings_.others), {"held_out"});
      out.scale(held, at::tensor(settings_.held_alpha, at::kDouble), "alpha_held_" + end, "1");
      write_transfer(out, done, name, method, group, held);
    }
  }

  void write_transfer(store::ResultsWriter& out, const Finished& done, const std::string& name,
                      const BasisMerge& method, const std::string& group, const std::string& held) const {
    const auto one = std::find(settings_.held_alpha.begin(), settings_.held_alpha.end(), 1.0) -
                     settings_.held_alpha.begin();
    std::map<std::string, std::vector<at::Tensor>> rows;
    for (const auto t : settings_.others) {
      const auto file =
          done.folder.read_unit(done.world, key::partition_transfer(method.name, name, study_.tasks.name(t)))
              .tensors;
      for (const auto& [what, values] : file) rows[what].push_back(values);
      const auto& cosine = file.at("cosine");
      Places nearest, found;
      std::vector<double> shot, tuned, chosen;
      for (std::size_t p = 0; p < bases_.partitions().size(); ++p) {
        const auto some = bases_.clusters_of(p);
        const auto at_cosine = [&](std::size_t c) {
          return cosine[static_cast<std::int64_t>(c)].item<double>();
        };
        const auto c = *std::max_element(some.begin(), some.end(), [&](std::size_t a, std::size_t b) {
          return at_cosine(a) < at_cosine(b);
        });
        const auto place = static_cast<std::int64_t>(c);
        const auto best =
            metrics::chosen_row(file.at("held_validation")[place].unsqueeze(1), at::ones({1}, at::kDouble));
        nearest.push_back(place);
        found.push_back(at_cosine(c) >= settings_.threshold ? 1 : 0);
        shot.push_back(file.at("held_test")[place][one].item<double>());
        tuned.push_back(file.at("held_test")[place][best].item<double>());
        chosen.push_back(settings_.held_alpha[static_cast<std::size_t>(best)]);
      }
      rows["nearest"].push_back(at::tensor(nearest, at::kLong));
      rows["found"].push_back(at::tensor(found, at::kLong));
      rows["one_shot"].push_back(at::tensor(shot, at::kDouble));
      rows["tuned"].push_back(at::tensor(tuned, at::kDouble));
      rows["chosen_alpha"].push_back(at::tensor(chosen, at::kDouble));
    }
    for (const auto& [what, values] : rows) {
      const bool by_cluster = what == "cosine" || what.starts_with("held_");
      std::vector<std::string> dimensions = {"held_out", by_cluster ? "cluster" : "every_partition"};
      if (what.starts_with("held_")) dimensions.push_back(held);
      out.put(group + "/" + what, at::stack(values), dimensions, "1");
    }
  }

  Settings settings_;
  PartitionBases bases_;
};

std::unique_ptr<Experiment> make_every_partition(config::Config& config, const Study& study) {
  auto section = config.optional_section("bases.partitions", of_partitions);
  if (!section) return nullptr;
  require_vectors(study, "bases.partitions");
  refuse_filter(study, "bases.partitions");
  const bool describing = !config.root().has("bases");
  EveryPartition::Settings settings;
  auto choice = read_partitions(config, *section, study);
  settings.tasks = std::move(choice.tasks);
  settings.methods = std::move(choice.methods);
  settings.out = read_merge_out(config);
  std::vector<double> usual;
  for (int k = 1; k <= 12; ++k) usual.push_back(0.25 * k);
  settings.alpha = section->alpha_grid(
      "alpha",
      {"Coefficients α of θ0 + ατ; the best on validation is chosen", {.fallback = "0.25, 0.5, … 3"}}, usual,
      coefficients);
  std::vector<double> held;
  for (int k = 0; k <= 10; ++k) held.push_back(0.1 * k);
  settings.held_alpha =
      section->alpha_grid("held_alpha",
                          {"Coefficients of a basis that is added to a task outside; 1 is among them",
                           {.fallback = "0, 0.1, … 1"}},
                          held, coefficients);
  if (std::find(settings.held_alpha.begin(), settings.held_alpha.end(), 1.0) == settings.held_alpha.end())
    section->refuse("held_alpha", "has no 1, which the tables' α = 1 needs");
  const auto others =
      section->words("held_out", {"The tasks outside, by name", {.fallback = "the run's others"}}, {});
  settings.threshold = section->real("threshold", "Cosine from which on a basis is found", 0, {-1, 1});
  if (describing)
    return std::make_unique<EveryPartition>(study, std::move(settings), std::move(choice.joint));
  settings.others = tasks_named(*section, "held_out", others, study);
  for (const auto t : settings.others)
    if (std::find(settings.tasks.begin(), settings.tasks.end(), t) != settings.tasks.end())
      section->refuse("held_out", fmt::format("has {}, which is in tasks", study.tasks.name(t)));
  if (!section->has("held_out")) {
    for (const auto t : study.tasks.all())
      if (std::find(settings.tasks.begin(), settings.tasks.end(), t) == settings.tasks.end())
        settings.others.push_back(t);
  }
  return std::make_unique<EveryPartition>(study, std::move(settings), std::move(choice.joint));
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(every_partition, 101, make_every_partition)
