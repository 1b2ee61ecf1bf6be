// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Similarity of task vectors on the way of their training (paper 2, appendix C.2, figure 9): of the models
// that [finetune] keep and keep_epochs keep, and at the end, the cosines, the gaps of their Laplacians and
// the clusters that follow from these; and how far the clusters are those of the end. The models on the way
// of a given regime are trained here, as far as the last: they are those that its own run had, as its losses
// say, bit by bit on a machine of the same kind.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/spectral/clustering.hpp"
#include "suite/error.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/store/input_file.hpp"
#include "suite/study/clusters.hpp"
#include "suite/training/kept_models.hpp"
#include "suite/training/trained_model.hpp"
#include "suite/training/trainer.hpp"

namespace taugrid::experiments {
namespace {

/// A given regime's models on the way of their training, trained again.
std::string kept_key(const std::string& regime, const std::string& task) {
  return key::of("kept", regime, task);
}
/// The unit of all vectors on the way of their training.
std::string early_similarity_key(const std::string& regime) { return key::of("early_similarity", regime); }

std::vector<OutputGroup> early_similarity_outputs() {
  return {{"/early_similarity/R",
           "task vectors on the way of their training",
           {{"mark", "mark", "", "the models on the way, by name, and \"end\"",
             With{.text = true, .scale = "mark_R"}},
            {"updates", "mark task", "", "steps taken until then", With{.element = Element::int64}},
            {"cosine", "mark task task", "1", "of vectors"},
            {"norm", "mark task", "", "‖τ‖"},
            {"labels", "mark task", "", "the cluster of each task, of chosen_clusters",
             With{.element = Element::int64}},
            {"eigenvalues", "mark eigenvalue", "1", "of the graph Laplacian of |cos|, ascending"},
            {"normalised_eigenvalues", "mark eigenvalue", "1", "of the normalised one"},
            {"every_labels", "mark clusters task", "1", "the cluster of each task, of 1 … T clusters",
             With{.element = Element::int64}},
            {"chosen_clusters", "mark", "1", "how many, by the largest gap", With{.element = Element::int64}},
            {"rand_index", "mark", "1", "of the clusters and those of the end, adjusted for chance"},
            {"@marks", "", "", "all of `mark`, with commas between"},
            {"@loss_difference", "", "",
             "the largest of the losses on the way, relative to those of the first training",
             With{.when = "a given regime"}}},
           "[finetune] keep or keep_epochs",
           2}};
}

/// The file of the losses [steps] that a given model's training had, in the folder of the run that gives it.
std::filesystem::path losses_file(const Study& study, const std::string& name, std::size_t t) {
  return schedule::RunFolder::unit_path(
      std::filesystem::weakly_canonical(study.settings.checkpoints).parent_path(),
      key::fine_tune(name, study.tasks.name(t)));
}

at::Tensor losses_given(const Study& study, const std::string& name, std::size_t t) {
  return store::read_tensor(losses_file(study, name, t), "loss");
}

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
      const auto tasks = static_cast<std::int64_t>(every.size()),
                 numbers = marks * (tasks * (2 * tasks + 5) + 2);
      const auto length = static_cast<double>(study_.model.layout().size());
      auto tally = Tally(study_).visit(name, every).stores(numbers);
      tally.reads(4 * length * static_cast<double>((marks - 1) * tasks));
      auto needs = study_.vectors.needs(name, every);
      if (!study_.settings.trains(name)) {
        for (const auto t : every) {
          add_training(units, name, t);
          needs.push_back(units.back().key);
        }
      }
      units.push_back(unit(early_similarity_key(name), tally, needs,
                           [this, name](schedule::UnitContext& context) { return compute(name, context); }));
    }
  }

  std::vector<WrittenGroup> written() const override {
    const auto tasks = length_of(study_.tasks.all());
    std::vector<WrittenGroup> groups;
    for (const auto& name : study_.settings.vector_regimes)
      if (keeps(name))
        groups.push_back(
            {"/early_similarity/" + name,
             {{"mark", length_of(training_.at(name).keep) + 1}, {"eigenvalue", tasks}, {"clusters", tasks}}});
    return groups;
  }

  void write(Results& out, const Finished& done) const override {
    for (const auto& name : study_.settings.vector_regimes) {
      if (!keeps(name)) continue;
      const auto group = "/early_similarity/" + name;
      std::vector<std::string> marks;
      for (const auto& mark : training_.at(name).keep) marks.push_back(mark.name());
      marks.emplace_back("end");
      std::string together;
      for (const auto& mark : marks) together += (together.empty() ? "" : ", ") + mark;
      out.put(group + "/mark", marks);
      const auto file = done.folder.read_unit(done.world, early_similarity_key(name)).tensors;
      out.put(group + "/cosine", file.at("cosine"));
      for (const auto* what : {"updates", "norm", "labels"}) out.put(group + "/" + what, file.at(what));
      for (const auto* what : {"eigenvalues", "normalised_eigenvalues"})
        out.put(group + "/" + what, file.at(what));
      out.put(group + "/every_labels", file.at("every_labels"));
      for (const auto* what : {"chosen_clusters", "rand_index"}) out.put(group + "/" + what, file.at(what));
      out.attribute(group, "marks", together);
      if (study_.settings.trains(name)) continue;
      double worst = 0;
      for (const auto t : study_.tasks.all()) {
        const auto unit = done.folder.read_unit(done.world, kept_key(name, study_.tasks.name(t)));
        worst = std::max(worst, unit.tensors.at("loss_difference").item<double>());
      }
      out.attribute(group, "loss_difference", worst);
    }
  }

 private:
  bool keeps(const std::string& name) const {
    return regime(name).source.empty() && !training_.at(name).keep.empty();
  }
  training::Training how_of(const std::string& name, std::size_t t) const {
    return training::of_task(training_.at(name), study_, t);
  }

  void add_training(std::vector<schedule::WorkUnit>& units, const std::string& name, std::size_t t) const {
    const training::KeptModels kept(study_, name, t, how_of(name, t));
    Tally tally(study_);
    tally.train(name, how_of(name, t), t, kept.last()).stores(1);
    for (std::size_t i = 0; i < training_.at(name).keep.size(); ++i) tally.checkpoint();
    units.push_back(
        unit(kept_key(name, study_.tasks.name(t)), tally, study_.vectors.start_needs(name, t),
             [this, name, t](schedule::UnitContext& context) { return train(name, t, context); }));
    units.back().verify = [kept](const auto& header) { return kept.verify(header); };
  }

  store::TensorFile train(const std::string& name, std::size_t t, schedule::UnitContext& context) const {
    const auto how = how_of(name, t);
    const training::KeptModels kept(study_, name, t, how);
    training::Trainer trainer(study_, name, how, t, context.group);
    const auto losses = study_.sums({kept.last()});
    auto steps =
        training::steps_with_losses(study_, trainer, how, kept_key(name, study_.tasks.name(t)), losses);
    steps.after = [&](std::int64_t done) {
      if (context.group.rank() == 0) kept.write(done, trainer.state());
    };
    training::run(steps, context);
    const auto given = losses_given(study_, name, t).narrow(0, 0, kept.last());
    const auto apart = (losses.to(at::kFloat).cpu() - given).abs().div(given.abs().clamp_min(1e-6F));
    // Another machine rounds otherwise; another training has other losses.
    constexpr double alike = 1e-2;
    const auto worst = apart.max().item<double>();
    if (!(worst <= alike))
      throw InputError(fmt::format(
          "{}: was trained otherwise than [finetune] says: the losses of its first {} steps differ by up to "
          "{:.1f} %, so models on the way cannot be kept; take away finetune.keep, or train it with "
          "finetune.given",
          study_.vectors.checkpoint_folder(name, t).string(), kept.last(), 100 * worst));
    store::TensorFile file;
    file.tensors["loss_difference"] = at::full({}, worst, at::kDouble);
    if (context.group.rank() == 0) file.metadata = kept.fingerprints();
    return file;
  }

  store::TensorFile compute(const std::string& name, const schedule::UnitContext& context) const {
    const auto& how = training_.at(name);
    const auto every = study_.tasks.all();
    std::map<std::string, std::vector<at::Tensor>> rows;
    const auto see = [&](const at::Tensor& gram, const std::vector<std::int64_t>& updates) {
      context.stop_if_requested();
      const auto cosine = study::cosines_of(gram);
      const auto eigenvalues = spectral::laplacian_eigenvalues(cosine);
      const auto k = spectral::largest_gap(eigenvalues.unnormalised);
      rows["updates"].push_back(at::tensor(updates, at::kLong));
      rows["cosine"].push_back(cosine);
      rows["norm"].push_back(gram.diagonal().sqrt());
      rows["eigenvalues"].push_back(eigenvalues.unnormalised);
      rows["normalised_eigenvalues"].push_back(eigenvalues.normalised);
      rows["chosen_clusters"].push_back(at::full({}, k, at::kLong));
      std::vector<at::Tensor> each;
      for (std::int64_t clusters = 1; clusters <= cosine.size(0); ++clusters)
        each.push_back(at::tensor(study::spectral_labels(study_, cosine, clusters), at::kLong));
      rows["labels"].push_back(each[static_cast<std::size_t>(k - 1)]);
      rows["every_labels"].push_back(at::stack(each));
    };
    for (const auto& mark : how.keep) {
      std::vector<std::int64_t> updates;
      for (const auto t : every) updates.push_back(training::updates_at(study_, how, mark, t));
      see(study_.vectors.gram_at(context.group, name, every, mark.name()).cpu(), updates);
    }
    std::vector<std::int64_t> last_updates;
    for (const auto t : every) last_updates.push_back(training::of_task(how, study_, t).steps);
    see(study_.vectors.gram(context.group, name, every).cpu(), last_updates);
    const auto last = study::labels_of(rows["labels"].back());
    for (const auto& labels : rows["labels"])
      rows["rand_index"].push_back(
          at::full({}, spectral::adjusted_rand_index(study::labels_of(labels), last), at::kDouble));
    store::TensorFile file;
    for (const auto& [what, values] : rows) file.tensors[what] = at::stack(values);
    return file;
  }

  std::map<std::string, training::Training> training_;
};

/// What a given regime's models on the way are compared by. Throws InputError.
void require_losses(const config::Section& section, const Study& study, const std::string& name,
                    const training::Training& how) {
  for (const auto t : study.tasks.all()) {
    const auto path = losses_file(study, name, t);
    const auto steps = training::of_task(how, study, t).steps;
    const auto refuse = [&](const std::string& reason) {
      section.refuse("keep",
                     fmt::format("needs {}'s losses in {} to train it again by, {}; name a run that trained "
                                 "it so in finetune.checkpoints, or leave it out of finetune.given",
                                 name, path.string(), reason));
    };
    if (!store::is_there(path)) refuse("which is not there");
    const auto count = losses_given(study, name, t).isfinite().sum().item<std::int64_t>();
    if (count != steps) refuse(fmt::format("which has {} of {} steps", count, steps));
  }
}

std::unique_ptr<Experiment> make_early_similarity(config::Config& config, const Study& study) {
  const auto section = study::finetune_section(config);
  if (!section) return nullptr;
  const auto training = training::read_trainings(config);
  auto experiment = std::make_unique<EarlySimilarity>(study, training);
  if (!experiment->measures_anything()) return nullptr;
  const auto& vectors = study.settings.vector_regimes;
  for (const auto& name : vectors) {
    const bool given = regime(name).source.empty() && !study.settings.trains(name);
    if (!given || training.at(name).keep.empty()) continue;
    const auto& start = regime(name).start;
    if (!start.empty() && std::find(vectors.begin(), vectors.end(), start) == vectors.end())
      section->refuse("keep",
                      fmt::format("takes the first steps of {} again, which begin at the models of {}: "
                                  "name that in regimes or in given, too",
                                  name, start));
    if (!study.model.fingerprint().empty()) require_losses(*section, study, name, training.at(name));
  }
  return experiment;
}

}  // namespace
}  // namespace taugrid::experiments

TAUGRID_EXPERIMENT(early_similarity, 45, make_early_similarity, early_similarity_outputs)
