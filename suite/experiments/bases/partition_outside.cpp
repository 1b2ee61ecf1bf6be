// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/bases/partition_outside.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "kernels/metrics/metrics.hpp"
#include "suite/study/clusters.hpp"

namespace taugrid::experiments {
namespace {

std::string partition_transfer_key(const std::string& method, const std::string& regime,
                                   const std::string& task) {
  return key::of("partition_transfer", method, regime) + "/" + task;
}

}  // namespace

PartitionOutside::PartitionOutside(const Study& study, const PartitionBases& bases,
                                   std::vector<std::size_t> others, std::vector<double> alpha,
                                   double threshold)
    : study_(study),
      bases_(bases),
      others_(std::move(others)),
      alpha_(std::move(alpha)),
      threshold_(threshold) {}

PartitionOutside::Clusters PartitionOutside::clusters(bool alone) const {
  Clusters indices;
  for (std::size_t c = 0; c < bases_.clusters(); ++c)
    if ((bases_.cluster(c).size() == 1) == alone) indices.push_back(c);
  return indices;
}

std::string PartitionOutside::unit_key(const ChosenMethod& method, bool alone, const std::string& name,
                                       std::size_t t) const {
  return partition_transfer_key(alone ? "alone" : method.method_name, name, study_.tasks.name(t));
}

void PartitionOutside::add_units(std::vector<schedule::WorkUnit>& units,
                                 const schedule::RunFolder& folder) const {
  for (const auto& name : study_.settings.vector_regimes) {
    bool first = true;
    for (const auto& method : bases_.methods()) {
      if (!bases_.takes(method, name)) continue;
      for (const auto t : others_) {
        if (first) add_unit(units, folder, name, method, true, t);
        if (bases_.tasks().size() > 1) add_unit(units, folder, name, method, false, t);
      }
      first = false;
    }
  }
}

Edit PartitionOutside::edit(const ChosenMethod& method, bool alone, const std::string& name,
                            const std::vector<std::size_t>& members, const at::Tensor& basis) const {
  return alone ? Edit::weighted(name, members, at::ones({1}, at::kDouble), alpha_, basis)
               : basis_edit(method, name, members, alpha_, basis);
}

void PartitionOutside::add_unit(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder,
                                const std::string& name, const ChosenMethod& method, bool alone,
                                std::size_t t) const {
  const auto some = clusters(alone);
  const auto a = static_cast<std::int64_t>(alpha_.size()), c = static_cast<std::int64_t>(some.size());
  const auto& tasks = bases_.tasks();
  Tally tally(study_);
  auto needs = study_.vectors.needs(name, {t});
  if (alone) {
    add_missing(needs, Edit::together(name, tasks, {1}).needs(study_, t));
    add_missing(needs, study_.vectors.needs(name, tasks));
  } else {
    for (const auto i : some) bases_.count(tally, method, name, bases_.cluster(i).size());
    add_missing(needs, bases_.needs(method, name));
    add_missing(needs, basis_needs(study_, method, name, tasks, t));
  }
  tally.visit(name, tasks).vectors(name, {t}).stores(c * (2 * a + 1));
  for (const auto split : {Split::validation, Split::test})
    for (const auto i : some)
      tally.edited(edit(method, alone, name, bases_.cluster(i)), t, split, study_.settings.evaluation_points);
  units.push_back(unit(unit_key(method, alone, name, t), tally, needs,
                       [this, name, &method, alone, t, &folder](schedule::UnitContext& context) {
                         return added(name, method, alone, t, folder, context);
                       }));
}

store::TensorFile PartitionOutside::added(const std::string& name, const ChosenMethod& method, bool alone,
                                          std::size_t t, const schedule::RunFolder& folder,
                                          schedule::UnitContext& context) const {
  const EditedOutputs models(study_, folder, context.group);
  const auto n = study_.settings.evaluation_points;
  const auto go_on = [&](double) { context.stop_if_requested(); };
  const auto some = clusters(alone);
  std::vector<at::Tensor> cosines, validation, test;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto members = bases_.cluster(some[i]);
    const auto basis = bases_.basis(method, name, members, folder, context);
    cosines.push_back(cosines_with(study_.vectors.vector(name, t).cpu(), {basis})[0]);
    const auto added = edit(method, alone, name, members, basis.to(study_.device));
    for (const auto split : {Split::validation, Split::test}) {
      auto curve = models.outcomes(added, t, split, n, go_on);
      (split == Split::test ? test : validation).push_back(std::move(curve.accuracy));
    }
    context.progress(static_cast<double>(i + 1) / static_cast<double>(some.size()), "bases");
  }
  store::TensorFile file;
  file.tensors = {{"cosine", at::stack(cosines)},
                  {"held_validation", at::stack(validation)},
                  {"held_test", at::stack(test)}};
  return file;
}

std::map<std::string, at::Tensor> PartitionOutside::together(const Finished& done, const ChosenMethod& method,
                                                             const std::string& name, std::size_t t) const {
  std::map<std::string, at::Tensor> all;
  for (const bool alone : {true, false}) {
    const auto some = clusters(alone);
    if (some.empty()) continue;
    const auto part = done.folder.read_unit(done.world, unit_key(method, alone, name, t)).tensors;
    for (const auto& [what, values] : part) {
      auto& held = all[what];
      auto shape = values.sizes().vec();
      shape.front() = static_cast<std::int64_t>(bases_.clusters());
      if (!held.defined()) held = at::empty(shape, values.options());
      held.index_copy_(0, at::tensor(std::vector<std::int64_t>(some.begin(), some.end()), at::kLong), values);
    }
  }
  return all;
}

std::vector<Output> PartitionOutside::outputs() {
  const std::string when = "other tasks, and no pair of methods";
  const With details = {.when = when}, whole = {.element = Element::int64, .when = when};
  return {
      {"other", "held_out", "", "the tasks outside, as places in /tasks", whole},
      {"held_alpha", "held_alpha", "1", "α of a basis", With{.scale = "alpha_held_METHOD_R", .when = when}},
      {"cosine", "held_out cluster", "1", "of the task's vector and each cluster's basis", details},
      {"held_validation", "held_out cluster held_alpha", "1", "accuracy of θ0 + αB on validation points",
       details},
      {"held_test", "held_out cluster held_alpha", "1", "accuracy of θ0 + αB on test points", details},
      {"nearest", "held_out every_partition", "1", "of a partition's bases the nearest, a place in `cluster`",
       whole},
      {"found", "held_out every_partition", "1", "1 where its cosine reaches `threshold`", whole},
      {"one_shot", "held_out every_partition", "1", "test accuracy with it at α = 1", details},
      {"tuned", "held_out every_partition", "1", "test accuracy with it at chosen_alpha", details},
      {"chosen_alpha", "held_out every_partition", "1", "its α by validation points", details}};
}

void PartitionOutside::write(Results& out, const Finished& done, const ChosenMethod& method,
                             const std::string& name, const std::string& group) const {
  if (others_.empty()) return;
  out.put(group + "/other", at::tensor(std::vector<std::int64_t>(others_.begin(), others_.end()), at::kLong));
  out.put(group + "/held_alpha", alpha_);
  const auto one_shot = std::find(alpha_.begin(), alpha_.end(), 1.0) - alpha_.begin();
  std::map<std::string, std::vector<at::Tensor>> rows;
  for (const auto t : others_) {
    const auto of_task = together(done, method, name, t);
    for (const auto& [what, values] : of_task) rows[what].push_back(values);
    const auto& cosine = of_task.at("cosine");
    std::vector<std::int64_t> nearest, near_enough;
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
          metrics::chosen_row(of_task.at("held_validation")[place].unsqueeze(1), at::ones({1}, at::kDouble));
      nearest.push_back(place);
      near_enough.push_back(at_cosine(c) >= threshold_ ? 1 : 0);
      shot.push_back(of_task.at("held_test")[place][one_shot].item<double>());
      tuned.push_back(of_task.at("held_test")[place][best].item<double>());
      chosen.push_back(alpha_[static_cast<std::size_t>(best)]);
    }
    rows["nearest"].push_back(at::tensor(nearest, at::kLong));
    rows["found"].push_back(at::tensor(near_enough, at::kLong));
    rows["one_shot"].push_back(at::tensor(shot, at::kDouble));
    rows["tuned"].push_back(at::tensor(tuned, at::kDouble));
    rows["chosen_alpha"].push_back(at::tensor(chosen, at::kDouble));
  }
  for (const auto& [what, values] : rows) {
    out.put(group + "/" + what, at::stack(values));
  }
}

}  // namespace taugrid::experiments
