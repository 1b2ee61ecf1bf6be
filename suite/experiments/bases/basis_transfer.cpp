// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Bases for a task that has no part in them (paper 2, section 5; tables 7, 13, 14): task t is held out, the
// others are clustered and merged, and the basis whose cosine with τt is the largest is added, θ0 + αB, α by
// validation points of t. It is found where that cosine reaches a threshold; where not, the paper keeps τt
// itself. All bases are measured, so that the nearest one is seen beside what any other gives: without that
// no cosine can be judged.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "kernels/metrics/metrics.hpp"
#include "kernels/spectral/clustering.hpp"
#include "suite/error.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/clusters.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

std::string basis_transfer_key(const std::string& regime, const std::string& task) {
  return key::of("basis_transfer", regime, task);
}

std::vector<OutputGroup> basis_transfer_outputs() {
  return {
      {"/basis_transfer/R", "θ0 + αB for a task that is held out, B being a basis of the other tasks",
       together(
           {{{"alpha", "alpha", "1", "α of the basis", With{.scale = "alpha_held_out_R"}},
             {"labels", "task task", "1", "of row t, the cluster of each other task; −1 its own",
              With{.element = Element::int64}},
             {"cosine", "task basis", "1", "of the task's vector and each basis, NaN where a row has fewer"},
             {"validation_accuracy", "task basis alpha", "1", "with each basis, on validation points"},
             {"test_accuracy", "task basis alpha", "1", "with each basis, on test points"},
             {"nearest", "task", "1", "the basis with the largest cosine", With{.element = Element::int64}},
             {"found", "task", "1", "1 where that cosine reaches `threshold`",
              With{.element = Element::int64}},
             {"chosen_alpha", "task", "1", "α of the nearest basis by validation points"},
             {"accuracy", "task", "1", "on test points with the nearest basis at that α"},
             {"others", "task", "1", "the mean over the other bases, each at its own α"},
             {"one_shot", "task", "1", "with the nearest basis at α = 1"},
             {"pretrained", "task", "1", "of θ0"},
             {"@merge_in", "", "", "how a cluster's vectors became one"},
             {"@threshold", "", "", "the cosine from which on a basis is found"}},
            both_sample_rows()}),
       "[bases.held_out]", 2}};
}

class BasisTransfer final : public Experiment {
 public:
  BasisTransfer(const Study& study, ChosenMethod in, std::int64_t clusters, std::vector<double> alpha,
                double threshold, double split_below)
      : Experiment(study),
        in_(std::move(in)),
        clusters_(clusters),
        alpha_(std::move(alpha)),
        threshold_(threshold),
        split_below_(split_below) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto a = static_cast<std::int64_t>(alpha_.size()),
               tasks = static_cast<std::int64_t>(study_.tasks.size());
    const auto numbers = tasks + most() * (2 * a + 1);
    for (const auto& name : study_.settings.vector_regimes) {
      for (const auto t : study_.tasks.all()) {
        const auto others = others_of(t);
        auto tally = Tally(study_).visit(name, others).vectors(name, {t}).stores(numbers);
        tally.holds(4.0 * static_cast<double>(study_.model.layout().size() * (most() + 1)));
        for (const auto split : {Split::validation, Split::test})
          tally.edited(basis_edit(in_, name, others, alpha_), t, split, points(), most());
        auto needs = basis_needs(study_, in_, name, others, t);
        add_missing(needs, study_.vectors.needs(name, {t}));
        needs.push_back(key::partitions(name));
        add_missing(needs, in_.needs(study_, name, others));
        count_cluster(tally, in_, name, merged_at_most(others.size(), clusters_));
        units.push_back(unit(basis_transfer_key(name, study_.tasks.name(t)), tally, needs,
                             [this, name, t, &folder](schedule::UnitContext& context) {
                               return compute(name, t, folder, context);
                             }));
      }
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/basis_transfer", study_.settings.vector_regimes,
                     {{"alpha", length_of(alpha_)}, {"basis", most()}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto one_shot = std::find(alpha_.begin(), alpha_.end(), 1.0) - alpha_.begin();
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/basis_transfer/" + name;
      out.put(group + "/alpha", alpha_);
      std::map<std::string, std::vector<at::Tensor>> rows;
      for (const auto t : study_.tasks.all()) {
        auto file = done.folder.read_unit(done.world, basis_transfer_key(name, study_.tasks.name(t))).tensors;
        const auto k = file.at("labels").max().item<std::int64_t>() + 1;
        const auto nearest = file.at("cosine").narrow(0, 0, k).argmax().item<std::int64_t>();
        const auto at_best = [&](std::int64_t c) {  // α by validation points, the first of equals
          return metrics::chosen_row(file.at("validation_accuracy")[c].unsqueeze(1),
                                     at::ones({1}, at::kDouble));
        };
        double others = 0;
        for (std::int64_t c = 0; c < k; ++c)
          if (c != nearest) others += file.at("test_accuracy")[c][at_best(c)].item<double>();
        const auto number = [](double value) { return at::full({}, value, at::kDouble); };
        const auto best = at_best(nearest);
        file["nearest"] = at::full({}, nearest, at::kLong);
        file["found"] =
            at::full({}, file.at("cosine")[nearest].item<double>() >= threshold_ ? 1 : 0, at::kLong);
        file["chosen_alpha"] = number(alpha_[static_cast<std::size_t>(best)]);
        file["accuracy"] = file.at("test_accuracy")[nearest][best];
        file["one_shot"] = file.at("test_accuracy")[nearest][one_shot];
        file["others"] = number(k > 1 ? others / static_cast<double>(k - 1) : std::nan(""));
        file["pretrained"] =
            done.folder.read_unit(done.world, key::single_task(study_.model.name(), study_.tasks.name(t)))
                .tensors.at("accuracy");
        for (const auto& [what, value] : file) rows[what].push_back(value);
      }
      for (const auto& [what, values] : rows) out.put(group + "/" + what, at::stack(values));
      out.attribute(group, "merge_in", in_.method_name);
      out.attribute(group, "threshold", threshold_);
      for (const auto split : {Split::test, Split::validation})
        out.put(group + "/" + prefix_of(split) + "sample_index", study_.samples.index(split, points()));
    }
  }

 private:
  /// Bases of a held-out task, at most.
  std::int64_t most() const {
    const auto others = static_cast<std::int64_t>(study_.tasks.size()) - 1;
    return clusters_ > 0 ? std::min(others, clusters_ * (split_below_ > -1 ? 2 : 1)) : others;
  }
  std::vector<std::size_t> others_of(std::size_t t) const {
    auto others = study_.tasks.all();
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(t));
    return others;
  }

  store::TensorFile compute(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                            schedule::UnitContext& context) const {
    const auto others = others_of(t);
    const auto places = at::tensor(std::vector<std::int64_t>(others.begin(), others.end()), at::kLong);
    const auto cosine =
        folder.read_tensor(key::partitions(name), "cosine").index_select(0, places).index_select(1, places);
    const auto k = clusters_ > 0
                       ? clusters_
                       : spectral::largest_gap(spectral::laplacian_eigenvalues(cosine).unnormalised);
    const auto labels = study::spectral_labels(study_, cosine, k, split_below_);
    const auto clusters = study::clusters_by(others, labels);
    const auto bases = bases_of(study_, name, clusters, in_, folder, context);
    const auto a = static_cast<std::int64_t>(alpha_.size()), count = static_cast<std::int64_t>(bases.size());
    store::TensorFile file;
    auto& tensors = file.tensors;
    auto unknown = [&](std::vector<std::int64_t> shape) {
      return at::full(shape, std::nan(""), at::kDouble);
    };
    tensors["labels"] = at::full({static_cast<std::int64_t>(study_.tasks.size())}, -1, at::kLong);
    tensors["labels"].index_copy_(0, places, at::tensor(labels, at::kLong));
    tensors["cosine"] = unknown({most()});
    tensors["cosine"].narrow(0, 0, count).copy_(cosines_with(study_.vectors.vector(name, t).cpu(), bases));
    const EditedOutputs models(study_, folder, context.group);
    int part = 0;
    for (const auto split : {Split::validation, Split::test}) {
      auto curves = unknown({most(), a});
      for (std::int64_t c = 0; c < count; ++c, ++part) {
        const auto basis = bases[static_cast<std::size_t>(c)].to(study_.device);
        const auto edit = basis_edit(in_, name, clusters[static_cast<std::size_t>(c)], alpha_, basis);
        const auto curve = models.outcomes(edit, t, split, points(), [&](double share) {
          context.stop_if_requested();
          context.progress((share + part) / static_cast<double>(2 * count), "bases");
        });
        curves[c].copy_(curve.accuracy);
      }
      tensors[std::string(study::split_name(split)) + "_accuracy"] = curves;
    }
    return file;
  }

  ChosenMethod in_;
  std::int64_t clusters_;  // 0: as the largest gap says
  std::vector<double> alpha_;
  double threshold_, split_below_;
};

std::unique_ptr<Experiment> make_basis_transfer(config::Config& config, const Study& study) {
  auto section = config.optional_section(
      "bases.held_out",
      "Holds each task out and adds the others' basis that is nearest to its vector: accuracy on it");
  if (!section) return nullptr;
  study::require_vectors(study, "bases.held_out");
  study::refuse_filter(study, "bases.held_out");
  const auto tasks = static_cast<double>(study.tasks.size());
  if (study.tasks.size() == 1)
    throw InputError("section [bases.held_out] needs two tasks or more; data.tasks has one");
  const auto clusters =
      section->integer("clusters",
                       {"Number of bases of the other tasks; 0: as many as the largest gap says",
                        {.values = "an integer from 0 to T − 1"}},
                       0, {0, std::max(1.0, tasks - 1)});
  const auto threshold = section->real(
      "threshold", "Cosine from which on a basis is found; others are measured all the same", 0, {-1, 1});
  auto alpha = addition_grid(*section);
  auto in = read_merge_in(config, study);
  const auto split_below = read_split(config);
  if (tasks > 1)
    check_clusters("bases.merge_in.method, for bases.held_out", in,
                   cluster_sizes(study.tasks.size() - 1, clusters, split_below > -1));
  return std::make_unique<BasisTransfer>(study, std::move(in), clusters, std::move(alpha), threshold,
                                         split_below);
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(basis_transfer, 99, make_basis_transfer, basis_transfer_outputs)
