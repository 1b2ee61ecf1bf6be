// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Task vector bases (paper 2, algorithm 1): tasks are clustered by |cos| of their vectors, each cluster's
// vectors become one basis (merge_in; a cluster of one is its vector; with split_below, one that has vectors
// that point apart is two clusters), and the bases one model θ0 + ατ
// (merge_out, of which methods with data take a basis B as the model θ0 + B and its tasks' data), which is
// evaluated on every task; α has the largest mean normalised accuracy on validation
// points. For every number of clusters k: of k vectors instead of T. Beside the spectral partition stand
// random ones with clusters of the same sizes, so that what clustering gains is told from what k vectors can
// do at all.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/spectral/clustering.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/edits/chosen_edit.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/ledger/results.hpp"
#include "suite/study/clusters.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

/// The model merged of bases, by the p-th partition into k clusters; the first is the spectral one.
std::string bases_key(const std::string& regime, std::size_t k, std::size_t p) {
  return key::of("bases", regime, std::to_string(k) + "-" + std::to_string(p));
}

std::vector<OutputGroup> bases_outputs() {
  const std::string nothing = "; −1, NaN or 0 where there is no such partition or the task is left out";
  return {
      {"/bases/R", "tasks' vectors clustered, and the models θ0 + ατ of the clusters' bases",
       together(
           {{{"cosine", "task task", "1", "of vectors"},
             {"eigenvalues", "eigenvalue", "1", "of the graph Laplacian of |cos|, ascending"},
             {"normalised_eigenvalues", "eigenvalue", "1", "of the normalised one"},
             {"chosen_clusters", "", "1", "how many, by the largest gap", With{.element = Element::int64}},
             {"clusters", "clusters", "", "the numbers of clusters",
              With{.element = Element::int64, .scale = "clusters_R"}},
             {"alpha", "alpha", "1", "α of the sum of bases", With{.scale = "alpha_bases_R"}},
             {"labels", "clusters partition task", "1",
              "the cluster of each task: of the spectral partition first, then of random ones with clusters "
              "of "
              "the same sizes" +
                  nothing,
              With{.element = Element::int64}},
             {"bytes", "clusters partition", "B", "of the partition's bases as float32" + nothing,
              With{.element = Element::int64}},
             {"validation_accuracy", "clusters partition alpha task", "1", "on validation points" + nothing},
             {"accuracy", "clusters partition task", "1", "on test points at the chosen α" + nothing},
             {"coefficient", "clusters partition", "1", "the chosen α" + nothing},
             {"absolute", "clusters partition", "1", "mean accuracy at the chosen α" + nothing},
             {"normalized", "clusters partition", "1", "mean normalised accuracy at the chosen α" + nothing},
             {"@split_below", "", "", "the cosine below which a cluster is parted"},
             {"@merge_in", "", "", "how a cluster's vectors became one"},
             {"@merge_out", "", "", "how the bases became one"}},
            both_sample_rows()}),
       "[bases]", 2}};
}

class Bases final : public Experiment {
 public:
  struct Settings {
    std::vector<int> clusters;
    std::int64_t random;
    std::vector<double> alpha;
    double split_below;
    ChosenMethod in, out;
  };
  Bases(const Study& study, Settings settings) : Experiment(study), settings_(std::move(settings)) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder& folder) const override {
    const auto tasks = static_cast<std::int64_t>(study_.tasks.size());
    const auto a = static_cast<std::int64_t>(settings_.alpha.size());
    const auto every = study_.tasks.all();
    for (const auto& name : study_.settings.vector_regimes) {
      const auto numbers = tasks * (tasks + 3) + k() * partitions() * tasks;
      auto first = study_.vectors.needs(name, every);
      add_missing(first, study::merged_needs(study_, name));
      units.push_back(unit(key::partitions(name), Tally(study_).visit(name, every).stores(numbers), first,
                           [this, name, &folder](schedule::UnitContext& context) {
                             return partition(name, folder, context);
                           }));
      settings_.in.add_units(units, study_, name, every, folder);
      Tally tally(study_);
      tally.stores(tasks * (a + 1) + 3);
      const bool adds = adds_tangents(name);
      const auto any_factors =  // of whichever partition: as many tangents are added
          adds ? std::optional(at::ones({tasks}, at::kDouble)) : std::nullopt;
      if (!adds) tally.visit(name, every);
      auto needs = settings_.in.needs(study_, name, every);
      needs.push_back(key::partitions(name));
      for (const auto t : every) {
        needs.push_back(key::single_task(name, study_.tasks.name(t)));
        const auto edit = merged_edit(name, every, any_factors);
        count_chosen(tally, edit, settings_.alpha, t);
        add_missing(needs, edit({1}).needs(study_, t));
      }
      each_partition([&](std::int64_t row, std::int64_t p) {
        auto whole = tally;  // and the bases, twice as many where each is split, and what they become
        const std::int64_t bases = settings_.clusters[static_cast<std::size_t>(row)];
        const auto most = settings_.split_below > -1 ? std::min(2 * bases, tasks) : bases;
        if (!adds) {
          count_cluster(whole, settings_.in, name, merged_at_most(study_.tasks.size(), bases));
          count_bases(whole, settings_.out, name, every, static_cast<std::size_t>(most));
        }
        units.push_back(
            unit(unit_key(name, row, p), whole, needs, [=, this, &folder](schedule::UnitContext& context) {
              return compute(name, row, p, folder, context);
            }));
      });
    }
  }

  std::vector<WrittenGroup> written() const override {
    return groups_of("/bases", study_.settings.vector_regimes,
                     {{"eigenvalue", length_of(study_.tasks.all())},
                      {"clusters", k()},
                      {"partition", partitions()},
                      {"alpha", length_of(settings_.alpha)}});
  }

  void write(Results& out, const Finished& done) const override {
    const auto a = static_cast<std::int64_t>(settings_.alpha.size()),
               tasks = static_cast<std::int64_t>(study_.tasks.size());
    for (const auto& name : study_.settings.vector_regimes) {
      const auto group = "/bases/" + name;
      out.put(group + "/clusters", at::tensor(settings_.clusters, at::kInt).to(at::kLong));
      out.put(group + "/alpha", settings_.alpha);
      const auto file = done.folder.read_unit(done.world, key::partitions(name)).tensors;
      out.put(group + "/cosine", file.at("cosine"));
      for (const auto* what : {"eigenvalues", "normalised_eigenvalues"})
        out.put(group + "/" + what, file.at(what));
      out.put(group + "/chosen_clusters", file.at("chosen_clusters"));
      out.put(group + "/labels", file.at("labels"));
      const auto bases = file.at("labels").amax(2) + 1;  // none where there is no partition
      out.put(group + "/bytes", 4 * study_.model.layout().size() * bases);
      std::map<std::string, at::Tensor> all;
      const auto unknown = [&](std::vector<std::int64_t> more) {
        more.insert(more.begin(), {k(), partitions()});
        return at::full(more, std::nan(""), at::kDouble);
      };
      all["accuracy"] = unknown({tasks});
      all["validation_accuracy"] = unknown({a, tasks});
      for (const auto* what : {"coefficient", "absolute", "normalized"}) all[what] = unknown({});
      each_partition([&](std::int64_t row, std::int64_t p) {
        auto tensors = done.folder.read_unit(done.world, unit_key(name, row, p)).tensors;
        if (const auto same = tensors.find("same"); same != tensors.end())
          tensors = done.folder.read_unit(done.world, unit_key(name, row, same->second.item<std::int64_t>()))
                        .tensors;
        for (auto& [what, values] : all) values[row][p].copy_(tensors.at(what));
      });
      for (const auto& [what, values] : all) out.put(group + "/" + what, values);
      out.attribute(group, "split_below", settings_.split_below);
      out.attribute(group, "merge_in", settings_.in.method_name);
      out.attribute(group, "merge_out", settings_.out.method_name);
      for (const auto split : {Split::test, Split::validation})
        out.put(group + "/" + prefix_of(split) + "sample_index", study_.samples.index(split, points()));
    }
  }

 private:
  std::int64_t k() const { return static_cast<std::int64_t>(settings_.clusters.size()); }
  std::int64_t partitions() const { return 1 + settings_.random; }
  /// Whether a model's outputs are sums of tangents that were computed once: those of linear regimes, where
  /// neither merge does more than add and divide.
  bool adds_tangents(const std::string& name) const {
    return regime(name).linear && factors_of({0, 0}, settings_.in, settings_.out).has_value();
  }
  std::string unit_key(const std::string& name, std::int64_t row, std::int64_t p) const {
    return bases_key(name, static_cast<std::size_t>(settings_.clusters[static_cast<std::size_t>(row)]),
                     static_cast<std::size_t>(p));
  }
  /// Whether there may be other partitions with clusters of the same sizes: one cluster that is split by sign
  /// is two.
  bool has_others(std::int64_t row) const {
    const auto clusters = static_cast<std::size_t>(settings_.clusters[static_cast<std::size_t>(row)]);
    const auto most = settings_.split_below > -1 ? 2 * clusters : clusters;
    return most > 1 && clusters < study_.tasks.size();
  }
  void each_partition(const std::function<void(std::int64_t row, std::int64_t p)>& see) const {
    for (std::int64_t row = 0; row < k(); ++row)
      for (std::int64_t p = 0; p < (has_others(row) ? partitions() : 1); ++p) see(row, p);
  }

  store::TensorFile partition(const std::string& name, const schedule::RunFolder& folder,
                              schedule::UnitContext& context) const {
    const auto whole = study::cosines_of(study_.vectors.gram(context.group, name, study_.tasks.all()).cpu());
    const auto kept = study::merged_tasks(study_, folder, name);
    const auto of = at::tensor(std::vector<std::int64_t>(kept.begin(), kept.end()), at::kLong);
    const auto cosine = whole.index_select(0, of).index_select(1, of);
    const auto tasks = static_cast<std::int64_t>(kept.size());
    const auto eigenvalues = spectral::laplacian_eigenvalues(cosine);
    auto labels = at::full({k(), partitions(), whole.size(0)}, -1, at::kLong);
    for (std::int64_t row = 0; row < k(); ++row) {
      const auto clusters = settings_.clusters[static_cast<std::size_t>(row)];
      if (clusters > tasks) continue;
      const auto chosen =
          at::tensor(study::spectral_labels(study_, cosine, clusters, settings_.split_below), at::kLong);
      labels[row][0].index_copy_(0, of, chosen);
      const auto found_clusters = chosen.max().item<std::int64_t>() + 1;
      if (found_clusters == 1 || found_clusters == tasks) continue;
      auto generator = at::make_generator<at::CPUGeneratorImpl>(
          study::seed_for(study_.settings.seed, fmt::format("bases/{}", clusters)));
      for (std::int64_t p = 1; p < partitions(); ++p) {
        const auto order = at::randperm(chosen.size(0), generator, at::kLong);
        const auto drawn = chosen.index_select(0, order);
        labels[row][p].index_copy_(0, of, at::tensor(spectral::in_order(study::labels_of(drawn)), at::kLong));
      }
    }
    store::TensorFile file;
    const auto filled = [&](const at::Tensor& values) {
      return at::constant_pad_nd(values, {0, whole.size(0) - tasks}, std::nan(""));
    };
    file.tensors = {
        {"cosine", whole},
        {"eigenvalues", filled(eigenvalues.unnormalised)},
        {"normalised_eigenvalues", filled(eigenvalues.normalised)},
        {"chosen_clusters", at::full({}, spectral::largest_gap(eigenvalues.unnormalised), at::kLong)},
        {"labels", labels}};
    return file;
  }

  /// The labels of the tasks that are merged.
  static std::vector<std::int64_t> merged_labels(std::vector<std::int64_t> labels) {
    std::erase_if(labels, [](auto label) { return label < 0; });
    return labels;
  }
  /// Whether two partitions of the same tasks give one model: where they are the same; and where both merges
  /// do no more than add and divide, if each vector counts for as much, as in clusters of one size.
  bool are_one_model(const at::Tensor& first, const at::Tensor& second) const {
    if (at::equal(first, second)) return true;
    const auto factors = [&](const at::Tensor& partition) {
      const auto labels = merged_labels(study::labels_of(partition));
      return labels.empty() ? std::nullopt : factors_of(labels, settings_.in, settings_.out);
    };
    const auto first_factors = factors(first), other = factors(second);
    return first_factors && other && at::equal(*first_factors, *other);
  }

  store::TensorFile compute(const std::string& name, std::int64_t row, std::int64_t p,
                            const schedule::RunFolder& folder, schedule::UnitContext& context) const {
    const auto partitions = folder.read_tensor(key::partitions(name), "labels")[row];
    for (std::int64_t other = 0; other < p; ++other) {
      if (!are_one_model(partitions[other], partitions[p])) continue;
      store::TensorFile file;  // another unit measures it
      file.tensors["same"] = at::full({}, other, at::kLong);
      return file;
    }
    const auto labels = study::labels_of(partitions[p]);
    std::vector<std::size_t> kept;
    for (const auto t : study_.tasks.all())
      if (labels[t] >= 0) kept.push_back(t);
    const auto own_labels = merged_labels(labels);
    at::Tensor tau;
    std::optional<at::Tensor> factors;
    if (adds_tangents(name)) {
      factors = factors_of(own_labels, settings_.in, settings_.out);
    } else if (!kept.empty()) {
      const auto clusters = study::clusters_by(kept, own_labels);
      tau = merged_bases(study_, name, clusters,
                         bases_of(study_, name, clusters, settings_.in, folder, context), settings_.out,
                         context);
    }
    const EditedOutputs models(study_, folder, context.group);
    const auto edit = merged_edit(name, kept, factors, tau);
    auto file = at_chosen_alpha_among_all(
        study_, kept, settings_.alpha, own_accuracies(study_, folder, name, kept),
        outcomes_of(study_, models, edit, context), [&](double share) { context.progress(share, "tasks"); });
    file.tensors.erase("correct");
    return file;
  }

  Settings settings_;
};

std::unique_ptr<Experiment> make_bases(config::Config& config, const Study& study) {
  auto section = config.optional_section("bases", of_bases);
  if (!section) return nullptr;
  study::require_vectors(study, "bases");
  const auto tasks = std::max(1, static_cast<int>(study.tasks.size()));
  auto clusters = numbered(
      *section, "clusters",
      {"Numbers of clusters k", {.fallback = "all", .values = "a list of ascending integers from 1 to T"}}, 1,
      tasks, false, fmt::format("there are {} tasks, which make 1 to {} clusters", tasks, tasks));
  const auto random = section->integer(
      "random", "Random partitions beside the spectral one, with clusters of the same sizes", 20, {0, 1e4});
  std::vector<double> usual;
  for (int k = 1; k <= 12; ++k) usual.push_back(0.25 * k);
  auto alpha = section->alpha_grid(
      "alpha",
      {"Coefficients α of θ0 + ατ; the best on validation is chosen", {.fallback = "0.25, 0.5, … 3"}}, usual,
      coefficients);
  const auto split_below = read_split(config);
  auto in = read_merge_in(config, study), out = read_merge_out(config, study);
  const bool split = split_below > -1;
  for (const auto k : clusters) {
    auto sizes = cluster_sizes(study.tasks.size(), k, split);
    if (study.settings.beat_majority) sizes.least = 2;  // of the tasks that are merged
    check_clusters("bases.merge_in.method", in, sizes);
    for (int bases = k; bases <= (split ? std::min(2 * k, tasks) : k); ++bases)
      check_bases("bases.merge_out.method", out, static_cast<std::size_t>(bases));
  }
  return std::make_unique<Bases>(study, Bases::Settings{std::move(clusters), random, std::move(alpha),
                                                        split_below, std::move(in), std::move(out)});
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(bases, 97, make_bases, bases_outputs)
