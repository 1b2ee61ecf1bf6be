// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Similarity of task vectors on the way of their training (paper 2, appendix C.2, figure 9): of the models
// that [finetune] keep and keep_epochs keep, and at the end, the cosines, the gaps of their Laplacians and
// the clusters that follow from these; and how far the clusters are those of the end.
//
// /early_similarity/R/mark [M] names, "end" last, also in the attribute `marks`; updates int64 [M,T]; cosine [M,T,T]; norm [M,T];
// eigenvalues, normalised_eigenvalues [M,T], ascending; chosen_clusters int64 [M], by the largest gap; labels
// int64 [M,T]; rand_index [M], adjusted for chance, of the clusters and those of the end
#include <ATen/ATen.h>

#include "kernels/spectral/clustering.hpp"
#include "suite/experiments/support/task_bases.hpp"
#include "suite/training/training.hpp"

namespace taugrid::experiments {
namespace {

class EarlySimilarity final : public Experiment {
 public:
  EarlySimilarity(const Study& study, std::map<std::string, training::Training> training)
      : Experiment(study), training_(std::move(training)) {}

  bool measures_anything() const {
    for (const auto& name : study_.settings.vector_regimes)
      if (keeps(name)) return true;
    return false;
  }

  void add_units(std::vector<schedule::WorkUnit>& units, const schedule::RunFolder&) const override {
    const auto every = study_.tasks.all();
    for (const auto& name : study_.settings.vector_regimes) {
      if (!keeps(name)) continue;
      const auto marks = static_cast<std::int64_t>(training_.at(name).keep.size()) + 1;
      const auto tasks = static_cast<std::int64_t>(every.size()), numbers = marks * (tasks * (tasks + 5) + 2);
      const auto length = static_cast<double>(study_.model.layout().size());
      auto tally = Tally(study_).visit(name, every).stores(numbers).publishes(numbers);
      tally.reads(4 * length * static_cast<double>((marks - 1) * tasks));
      units.push_back(unit(key::early_similarity(name), tally, study_.vectors.needs(name, every),
                           [this, name](schedule::UnitContext& context) { return compute(name, context); }));
    }
  }

  void write(store::ResultsWriter& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      if (!keeps(name)) continue;
      const auto group = "/early_similarity/" + name, axis = group + "/mark";
      std::vector<std::string> marks;
      for (const auto& mark : training_.at(name).keep) marks.push_back(mark.name());
      marks.emplace_back("end");
      std::string together;
      for (const auto& mark : marks) together += (together.empty() ? "" : ", ") + mark;
      out.scale(axis, marks, "mark_" + name);
      const auto file = done.folder.read_unit(done.world, key::early_similarity(name)).tensors;
      out.put(group + "/cosine", file.at("cosine"), {axis, "task", "task"}, "1");
      for (const auto* what : {"updates", "norm", "labels"})
        out.put(group + "/" + what, file.at(what), {axis, "task"});
      for (const auto* what : {"eigenvalues", "normalised_eigenvalues"})
        out.put(group + "/" + what, file.at(what), {axis, "eigenvalue"}, "1");
      for (const auto* what : {"chosen_clusters", "rand_index"})
        out.put(group + "/" + what, file.at(what), {axis}, "1");
      out.attribute(group, "marks", together);
    }
  }

 private:
  bool keeps(const std::string& name) const {
    return study_.settings.trains(name) && !training_.at(name).keep.empty();
  }

  store::TensorFile compute(const std::string& name, const schedule::UnitContext& context) const {
    const auto& how = training_.at(name);
    const auto every = study_.tasks.all();
    std::map<std::string, std::vector<at::Tensor>> rows;
    const auto see = [&](const at::Tensor& gram, const std::vector<std::int64_t>& updates) {
      context.stop_if_requested();
      const auto cosine = cosines_of(gram);
      const auto found = spectral::laplacian_eigenvalues(cosine);
      const auto k = spectral::largest_gap(found.unnormalised);
      rows["updates"].push_back(at::tensor(updates, at::kLong));
      rows["cosine"].push_back(cosine);
      rows["norm"].push_back(gram.diagonal().sqrt());
      rows["eigenvalues"].push_back(found.unnormalised);
      rows["normalised_eigenvalues"].push_back(found.normalised);
      rows["chosen_clusters"].push_back(at::full({}, k, at::kLong));
      rows["labels"].push_back(at::tensor(spectral_labels(study_, cosine, k), at::kLong));
    };
    for (const auto& mark : how.keep) {
      std::vector<std::int64_t> updates;
      for (const auto t : every) updates.push_back(training::updates_at(study_, how, mark, t));
      see(study_.vectors.gram_at(context.group, name, every, mark.name()).cpu(), updates);
    }
    see(study_.vectors.gram(context.group, name, every).cpu(),
        std::vector<std::int64_t>(every.size(), how.steps));
    const auto last = labels_of(rows["labels"].back());
    for (const auto& labels : rows["labels"])
      rows["rand_index"].push_back(
          at::full({}, spectral::adjusted_rand_index(labels_of(labels), last), at::kDouble));
    store::TensorFile file;
    for (const auto& [what, values] : rows) file.tensors[what] = at::stack(values);
    return file;
  }

  std::map<std::string, training::Training> training_;
};

std::unique_ptr<Experiment> make_early_similarity(config::Config& config, const Study& study) {
  if (!study::finetune_section(config)) return nullptr;
  auto made = std::make_unique<EarlySimilarity>(study, training::read_trainings(config));
  if (!made->measures_anything()) return nullptr;
  return made;
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(early_similarity, 45, make_early_similarity)
