// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Negation by bases (paper 2, section 5; table 6): k vectors are kept instead of T, and θ0 − αB makes the
// model forget task t, B being the basis whose cosine with τt is the largest. α as for task negation: of
// those that keep 95 % of θ0's accuracy on the control on validation points, the one with the least on the
// task.
#include <ATen/ATen.h>

#include <algorithm>

#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/edits/target_and_control.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/study/clusters.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

/// The bases by one partition, and one subtracted from a task.
std::string basis_vectors_key(const std::string& regime) { return key::of("basis_vectors", regime); }
std::string basis_negation_key(const std::string& regime, const std::string& task) {
  return key::of("basis_negation", regime, task);
}

std::vector<OutputGroup> basis_negation_outputs() {
  return {{"/basis_negation/R", "θ0 − αB, B being the basis nearest to the task's vector",
           together({forgotten_outputs("task", "alpha_basis_negation_R"),
                     {{"labels", "task", "1", "the cluster of each task", With{.element = Element::int64}},
                      {"nearest", "task", "1",
                       "the cluster whose basis has the largest cosine with the task's vector",
                       With{.element = Element::int64}},
                      {"nearest_cosine", "task", "1", "that cosine"},
                      {"@clusters", "", "", "how many bases there are"},
                      {"@merge_in", "", "", "how a cluster's vectors became one"}}}),
           "[bases.negation]", 2}};
}

std::string basis_name(std::int64_t c) { return "basis_" + std::to_string(c); }

class BasisNegation final : public Experiment {
 public:
  BasisNegation(const Study& study, ChosenMethod in, std::int64_t clusters, std::vector<double> alpha,
                double threshold, double split_below)
      : Experiment(study),
        in_(std::move(in)),
        clusters_(clusters),
        alpha_(std::move(alpha)),
        threshold_(threshold),
        split_below_(split_below) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    const auto length = study_.model.layout().size(),
               most = clusters_ > 0 ? std::min(tasks, clusters_ * (split_below_ > -1 ? 2 : 1)) : tasks;
    const auto all = study_.tasks.all();
    for (const auto& name : study_.settings.vector_regimes) {
      auto basis_tally = Tally(study_).visit(name, all).vectors(name, all).stores(most * length, 4);
      basis_tally.stores(3 * tasks).holds(4.0 * static_cast<double>(most * length));
      auto needs = study_.vectors.needs(name, all);
      needs.push_back(key::partitions(name));
      add_missing(needs, in_.needs(study_, name, all));
      count_cluster(basis_tally, in_, name, merged_at_most(all.size(), clusters_));
      units.push_back(unit(
          basis_vectors_key(name), basis_tally, needs,
          [this, name, &folder](schedule::UnitContext& context) { return bases(name, folder, context); }));
      for (const auto t : all) {
        const auto edit = basis_edit(in_, name, all, minus(alpha_));
        auto tally = target_and_control_tally(study_, edit, t).reads(4.0 * static_cast<double>(length));
        std::vector<std::string> of_task = {basis_vectors_key(name)};
        add_missing(of_task, study_.vectors.needs(name, all));
        add_missing(of_task, target_and_control_needs(study_, edit, t));
        units.push_back(unit(basis_negation_key(name, study_.tasks.name(t)), tally, of_task,
                             [this, name, t, &folder](schedule::UnitContext& context) {
                               return curves(name, t, folder, context);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/basis_negation", study_.settings.vector_regimes, {{"alpha", length_of(alpha_)}});
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/basis_negation/" + name;
      put_target_and_control(
          out, done, study_, group, alpha_, {{"", alpha_}}, threshold_,
          each_task(study_, [&](const std::string& task) { return basis_negation_key(name, task); }));
      const auto key = basis_vectors_key(name);
      const auto labels = done.folder.read_tensor(key, "labels");
      for (const auto* what : {"labels", "nearest", "nearest_cosine"})
        out.put(group + "/" + what, done.folder.read_tensor(key, what));
      out.attribute(group, "clusters", labels.max().item<std::int64_t>() + 1);
      out.attribute(group, "merge_in", in_.method_name);
    }
  }

 private:
  /// The bases, [P] each, and which of them each task resembles most.
  store::TensorFile bases(const std::string& name, const schedule::RunFolder& folder,
                          schedule::UnitContext& context) const {
    const auto partition = folder.read_unit(key::partitions(name)).tensors;
    const auto k = clusters_ > 0 ? clusters_ : partition.at("chosen_clusters").item<std::int64_t>();
    const auto labels = study::spectral_labels(study_, partition.at("cosine"), k, split_below_);
    const auto all = study_.tasks.all();
    const auto vectors = bases_of(study_, name, study::clusters_by(all, labels), in_, folder, context);
    store::TensorFile file;
    for (std::size_t c = 0; c < vectors.size(); ++c)
      file.tensors[basis_name(static_cast<std::int64_t>(c))] = vectors[c];
    std::vector<at::Tensor> cosines;
    for (const auto t : all) cosines.push_back(cosines_with(study_.vectors.vector(name, t).cpu(), vectors));
    const auto [cosine, nearest] = at::stack(cosines).max(1);
    file.tensors["labels"] = at::tensor(labels, at::kLong);
    file.tensors["nearest"] = nearest;
    file.tensors["nearest_cosine"] = cosine;
    return file;
  }

  store::TensorFile curves(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                           schedule::UnitContext& context) const {
    const auto key = basis_vectors_key(name);
    const auto labels = folder.read_tensor(key, "labels");
    const auto nearest =
        folder.read_tensor(key, "nearest")[static_cast<std::int64_t>(t)].item<std::int64_t>();
    const auto basis = folder.read_tensor(key, basis_name(nearest)).to(study_.device);
    const auto members = study::members_of(study_.tasks.all(), study::labels_of(labels), nearest);
    return target_and_control(study_, folder, context, basis_edit(in_, name, members, minus(alpha_), basis),
                              t);
  }

  ChosenMethod in_;
  std::int64_t clusters_;  // 0: as the largest gap says
  std::vector<double> alpha_;
  double threshold_, split_below_;
};

std::unique_ptr<Experiment> make_basis_negation(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "bases.negation",
      "Subtracts the basis nearest to a task: accuracy of θ0 − αB on the task and on the control");
  if (!section) return nullptr;
  study::require_vectors(study, "bases.negation");
  study::refuse_filter(study, "bases.negation");
  require_control(study, "bases.negation");
  const auto clusters = section->integer(
      "clusters",
      {"Number of bases; 0: as many as the largest gap says", {.values = "an integer from 0 to T"}}, 0,
      {0, std::max(1.0, static_cast<double>(study.tasks.size()))});
  auto alpha = read_wide_alpha(*section, "alpha", "Coefficients α of θ0 − αB");
  const auto threshold = control_threshold(*section);
  auto in = read_merge_in(config, study);
  const auto split_below = read_split(config);
  check_clusters("bases.merge_in.method, for bases.negation", in,
                 cluster_sizes(study.tasks.size(), clusters, split_below > -1));
  return std::make_unique<BasisNegation>(study, std::move(in), clusters, std::move(alpha), threshold,
                                         split_below);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(basis_negation, 98, make_basis_negation, basis_negation_outputs)
