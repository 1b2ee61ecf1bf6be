// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Negation by the bases of [bases.partitions] (paper 2, table 6): a few tasks are clustered, each cluster's
// basis is made by several methods in turn, and θ0 − αB of every cluster that holds one of them, t, makes the
// model forget t; of the cluster that is t alone, B is τt itself. By joint, which trains a cluster's tasks
// together, B is the paper's MTL and, of a linear regime, its Tangent. α as for task negation.
#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "suite/experiments/bases/partition_bases.hpp"
#include "suite/experiments/edits/target_and_control.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

/// The c-th cluster's basis subtracted, to forget one of its tasks.
std::string partition_negation_key(const std::string& method, const std::string& regime, std::size_t c) {
  return key::of("partition_negation", method, regime) + "/" + std::to_string(c);
}

std::vector<OutputGroup> partition_negation_outputs() {
  return {
      {"/partition_negation/METHOD/R", "θ0 − αB of the basis of every cluster that holds a task",
       together({forgotten_outputs("negated_cluster", "alpha_partition_negation_METHOD_R"),
                 {{"cosine", "negated_cluster", "1", "of the basis and the task's vector"},
                  {"member", "member", "", "the tasks, as places in /tasks", With{.element = Element::int64}},
                  {"cluster", "negated_cluster member", "1", "1 where one is of the cluster",
                   With{.element = Element::uint8}},
                  {"@task", "", "", "the task that is forgotten"}}}),
       "[bases.partitions.negation]", 2}};
}

class PartitionNegation final : public Experiment {
 public:
  PartitionNegation(const Study& study, PartitionChoice choice, std::size_t task, std::vector<double> alpha,
                    double threshold)
      : Experiment(study),
        task_(task),
        alpha_(std::move(alpha)),
        threshold_(threshold),
        bases_(study, std::move(choice)) {
    for (std::size_t c = 0; c < bases_.clusters(); ++c) {
      const auto members = bases_.cluster(c);
      if (std::find(members.begin(), members.end(), task_) != members.end()) clusters_.push_back(c);
    }
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    std::set<std::string> added;  // the task alone is every method's
    each([&](const std::string& name, const ChosenMethod& method) {
      for (const auto c : clusters_) {
        const auto members = bases_.cluster(c);
        const auto key = unit_key(method, name, c);
        if (!added.insert(key).second) continue;
        const auto edit = basis_edit(method, name, members, minus(alpha_));
        auto tally = target_and_control_tally(study_, edit, task_).stores(1);
        tally.visit(name, members).vectors(name, {task_});
        bases_.count(tally, method, name, members.size());
        auto needs = bases_.needs(method, name);
        add_missing(needs, study_.vectors.needs(name, members));
        add_missing(needs, target_and_control_needs(study_, edit, task_));
        units.push_back(unit(key, tally, needs, [this, name, &method, c, &folder](auto& context) {
          return curves(name, method, c, folder, context);
        }));
      }
    });
  }

  std::vector<WrittenGroup> written() const override {
    std::vector<WrittenGroup> groups;
    each([&](const std::string& name, const ChosenMethod& method) {
      groups.push_back({"/partition_negation/" + method.method_name + "/" + name,
                        {{"alpha", length_of(alpha_)},
                         {"negated_cluster", length_of(clusters_)},
                         {"member", length_of(bases_.tasks())}}});
    });
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    const auto& tasks = bases_.tasks();
    auto sets = at::zeros(
        {static_cast<std::int64_t>(clusters_.size()), static_cast<std::int64_t>(tasks.size())}, at::kByte);
    for (std::size_t i = 0; i < clusters_.size(); ++i)
      for (const auto t : bases_.cluster(clusters_[i]))
        sets[static_cast<std::int64_t>(i)][std::find(tasks.begin(), tasks.end(), t) - tasks.begin()].fill_(1);
    each([&](const std::string& name, const ChosenMethod& method) {
      const auto group = "/partition_negation/" + method.method_name + "/" + name;
      ForgottenRows rows{std::vector<std::size_t>(clusters_.size(), task_), {}};
      for (const auto c : clusters_) rows.keys.push_back(unit_key(method, name, c));
      put_target_and_control(out, done, study_, group, alpha_, {{"", alpha_}}, threshold_, rows);
      put_cosines(out, done, group, rows);
      out.put(group + "/member",
              at::tensor(std::vector<std::int64_t>(tasks.begin(), tasks.end()), at::kLong));
      out.put(group + "/cluster", sets);
      out.attribute(group, "task", study_.tasks.name(task_));
    });
  }

 private:
  void each(const std::function<void(const std::string& name, const ChosenMethod& method)>& see) const {
    for (const auto& name : study_.settings.vector_regimes)
      for (const auto& method : bases_.methods())
        if (bases_.takes(method, name)) see(name, method);
  }
  std::string unit_key(const ChosenMethod& method, const std::string& name, std::size_t c) const {
    return partition_negation_key(bases_.cluster(c).size() == 1 ? "alone" : method.method_name, name, c);
  }

  store::TensorFile curves(const std::string& name, const ChosenMethod& method, std::size_t c,
                           const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto members = bases_.cluster(c);
    const auto basis = bases_.basis(method, name, members, folder, context);
    const auto edit = basis_edit(method, name, members, minus(alpha_), basis.to(study_.device));
    auto file = target_and_control(study_, folder, context, edit, task_);
    file.tensors["cosine"] = cosines_with(study_.vectors.vector(name, task_).cpu(), {basis})[0];
    return file;
  }

  std::size_t task_;
  std::vector<double> alpha_;
  double threshold_;
  PartitionBases bases_;
  std::vector<std::size_t> clusters_;  // that hold the task
};

std::unique_ptr<Experiment> make_partition_negation(config::Config& config, const Study& study) {
  auto section = config.optional_section("bases.partitions.negation",
                                         "Subtracts the bases of [bases.partitions] whose clusters hold a "
                                         "task: accuracy on it and on the control");
  if (!section) return nullptr;
  study::require_vectors(study, "bases.partitions.negation");
  study::refuse_filter(study, "bases.partitions.negation");
  require_control(study, "bases.partitions.negation");
  auto of = config.section("bases.partitions", of_partitions);
  auto choice = read_partitions(config, of, study);
  const auto name = section->word("task",
                                  {"The task that is forgotten, one of bases.partitions.tasks",
                                   {.fallback = "the first of them", .values = "a task's name"}},
                                  choice.tasks.empty() ? "" : study.tasks.name(choice.tasks.front()));
  auto alpha = read_wide_alpha(*section, "alpha", "Coefficients α of θ0 − αB");
  const auto threshold = control_threshold(*section);
  std::size_t task = 0;
  if (!choice.tasks.empty()) {
    const auto place = std::find_if(choice.tasks.begin(), choice.tasks.end(),
                                    [&](auto t) { return study.tasks.name(t) == name; });
    if (place == choice.tasks.end())
      section->refuse("task", "is " + name + ", which is none of bases.partitions.tasks");
    task = *place;
  }
  return std::make_unique<PartitionNegation>(study, std::move(choice), task, std::move(alpha), threshold);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(partition_negation, 102, make_partition_negation, partition_negation_outputs)
