// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// Consensus merging with masks that each task chooses (TALL masks: Wang et al. 2024):
// of what is merged, τ, task t claims the numbers of
//   m_t = [|τ_t| > λ_t|τ − τ_t|],
// λ_t that of `tall_lambdas` whose model θ0 + m_t ⊙ τ is right on most of the task's own validation points
// (of equal ones the earlier). Numbers stay that enough tasks claim. With one λ for all nothing is chosen:
// make_consensus.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "suite/config/canonical.hpp"
#include "suite/merging/data/data_method.hpp"
#include "suite/merging/matrices/calibrated.hpp"
#include "suite/merging/study_vectors.hpp"
#include "suite/merging/vectors/elementwise.hpp"
#include "suite/study/merged_tasks.hpp"

namespace taugrid::merging {
namespace {

/// What is merged before the tasks' masks.
std::string whole_merge_key(const std::string& method, const std::string& regime) {
  return key::of("whole_merge", method, regime);
}

std::vector<ledger::Output> consensus_outputs() {
  const std::string when = "several tall_lambdas";
  return {{"mask_lambda", "mask_lambda", "1", "every λ tried",
           With{.scale = "tall_lambda_METHOD_R", .when = when}},
          mask_density(),
          {"tall_lambda", "task", "1", "λ as chosen; NaN of tasks left out", With{.when = when}},
          {"mask_accuracy", "task mask_lambda", "1",
           "of θ0 + m ⊙ τ on validation points; NaN of tasks left out", With{.when = when}}};
}

std::shared_ptr<const Elementwise> claimed(Elementwise whole, std::vector<double> lambda) {
  whole.claim = std::move(lambda);
  return std::make_shared<Elementwise>(std::move(whole));
}

class ChosenConsensus final : public DataMerge {
 public:
  /// `whole`: what is merged before masks; `lambda`: those to choose from.
  ChosenConsensus(const Place& place, Elementwise whole, std::vector<double> lambda)
      : DataMerge(place), whole_(std::move(whole)), lambda_(std::move(lambda)), parts_(place.name) {}

  void add_units(std::vector<schedule::WorkUnit>& units, const std::string& name,
                 const schedule::RunFolder& folder) const override {
    const auto all = study_.tasks.all();
    auto needs = study_.vectors.needs(name, all);
    add_missing(needs, study::merged_needs(study_, name));
    auto tally = Tally(study_).stores(size() + 2, 4).visit(name, all);
    count_merge(tally, whole_, name, study_.tasks.all());
    units.push_back(
        unit(whole_merge_key(parts_, name), tally, needs,
             [this, name, &folder](schedule::UnitContext& context) { return whole(name, folder, context); }));
    for (const auto t : all) {
      auto of_task = Edit::along(name, all, {1}).needs(study_, t);
      add_missing(of_task, study::merged_needs(study_, name));
      of_task.push_back(whole_merge_key(parts_, name));
      units.push_back(unit(key::merging_data(parts_, name, study_.tasks.name(t)), choice_work(name, t),
                           of_task, [this, name, t, &folder](schedule::UnitContext& context) {
                             return choice(name, t, folder, context);
                           }));
    }
  }
  std::vector<std::string> needs(const std::string& name) const override {
    std::vector<std::string> keys = {whole_merge_key(parts_, name)};
    for (const auto t : study_.tasks.all())
      keys.push_back(key::merging_data(parts_, name, study_.tasks.name(t)));
    return keys;
  }

  void count_merged(Tally& tally, const std::string& name, std::size_t, std::size_t) const override {
    count_merge(tally, whole_, name, study_.tasks.all());
  }

  MergeResult merged(const ModelsToMerge& models, const Part& part,
                     schedule::UnitContext& context) const override {
    MergeResult result;
    std::vector<double> lambda;
    for (std::size_t i = 0; i < models.size(); ++i) {
      lambda.push_back(part(i, "lambda").item<double>());
      result.inputs.forward += part(i, "passes")[0].item<double>();
    }
    const auto before = part(0, "passes")[1].item<double>();
    result.merged =
        merged_vector(*claimed(whole_, lambda), models.vectors(), context.group, [&](double share) {
          context.stop_if_requested();
          context.progress(share, "consensus");
        });
    result.merged.stats.passes += before + 2;  // each mask is of the whole and of a vector
    return result;
  }

  /// λ of each task's mask, in the order of the models.
  RecipeNote recipe_note(const std::string& name, const std::vector<std::size_t>& tasks) const override {
    std::vector<double> lambda;
    for (const auto t : tasks)
      lambda.push_back(
          unit_tensor(key::merging_data(parts_, name, study_.tasks.name(t)), "lambda").item<double>());
    return {"# Each model's tall_lambda is the one that validation points of its own task chose.\n",
            {{"tall_lambda", config::canonical(lambda)}}};
  }

  Lengths lengths(const std::string&) const override { return {{"mask_lambda", lambdas()}}; }
  void write(Results& out, const Finished& done, const std::string& group, const std::string& name,
             const std::string&) const override {
    std::vector<at::Tensor> lambda, accuracy, density;
    for (const auto t : study_.tasks.all()) {
      const auto file =
          done.folder.read_unit(done.world, key::merging_data(parts_, name, study_.tasks.name(t)));
      lambda.push_back(file.tensors.at("lambda"));
      accuracy.push_back(file.tensors.at("accuracy"));
      density.push_back(file.tensors.at("density"));
    }
    out.put(group + "/mask_lambda", lambda_);
    out.put(group + "/tall_lambda", at::stack(lambda));
    out.put(group + "/mask_density", at::stack(density));
    out.put(group + "/mask_accuracy", at::stack(accuracy));
  }

 private:
  std::int64_t size() const { return study_.model.layout().size(); }
  std::int64_t points() const { return study_.settings.evaluation_points; }
  std::int64_t lambdas() const { return static_cast<std::int64_t>(lambda_.size()); }

  /// τ [P] before masks, and the passes over the vectors that it took.
  store::TensorFile whole(const std::string& name, const schedule::RunFolder& folder,
                          schedule::UnitContext& context) const {
    const StudyVectors vectors(study_, name, study::merged_tasks(study_, folder, name));
    const auto merged = merged_vector(whole_, vectors, context.group, [&](double share) {
      context.stop_if_requested();
      context.progress(share, "before masks");
    });
    store::TensorFile file;
    file.tensors["tau"] = merged.tau;
    file.tensors["passes"] = at::full({}, merged.stats.passes, at::kDouble);
    return file;
  }

  Tally choice_work(const std::string& name, std::size_t t) const {
    auto tally = Tally(study_).vectors(name, {t}).reads(4.0 * static_cast<double>(size()));
    const auto edit = Edit::along(name, study_.tasks.all(), {1});
    tally.edited(edit, t, Split::validation, points(), lambdas());  // each another direction
    return tally.holds(20.0 * static_cast<double>(size())).stores(lambdas() + 4);
  }

  /// λ_t, the density of its mask, accuracy [L]; passes: of inputs, and over the vectors of the whole.
  store::TensorFile choice(const std::string& name, std::size_t t, const schedule::RunFolder& folder,
                           schedule::UnitContext& context) const {
    const auto kept = study::merged_tasks(study_, folder, name);
    auto accuracy = at::full({lambdas()}, std::nan(""), at::kDouble);
    double lambda = std::nan(""), density = std::nan(""), best = -1, inputs = 0;
    if (std::find(kept.begin(), kept.end(), t) != kept.end()) {
      const EditedOutputs models(study_, folder, context.group);
      const auto whole = folder.read_tensor(whole_merge_key(parts_, name), "tau");
      const auto tau = study_.vectors.vector(name, t).cpu();
      const auto size_of_own = tau.abs(), size_of_others = (whole - tau).abs();
      for (std::int64_t l = 0; l < lambdas(); ++l) {
        const auto each = lambda_[static_cast<std::size_t>(l)];
        const auto mask = size_of_own > each * size_of_others;
        const auto edit = Edit::along(name, kept, {1}, at::where(mask, whole, 0.0).to(study_.device));
        const auto outcome = models.outcomes(edit, t, Split::validation, points(), [&](double) {
          context.stop_if_requested();
          context.progress(static_cast<double>(l) / static_cast<double>(lambdas()), "masks");
        });
        accuracy[l] = outcome.accuracy[0];
        if (outcome.accuracy[0].item<double>() <= best) continue;
        best = outcome.accuracy[0].item<double>();
        lambda = each;
        density =
            static_cast<double>(at::count_nonzero(mask).item<std::int64_t>()) / static_cast<double>(size());
      }
      inputs = static_cast<double>(lambdas() * study_.samples.size(t, Split::validation, points()));
    }
    store::TensorFile file;
    file.tensors["lambda"] = at::full({}, lambda, at::kDouble);
    file.tensors["density"] = at::full({}, density, at::kDouble);
    file.tensors["accuracy"] = accuracy;
    file.tensors["passes"] = at::tensor(
        {inputs, folder.read_tensor(whole_merge_key(parts_, name), "passes").item<double>()}, at::kDouble);
    return file;
  }

  Elementwise whole_;
  std::vector<double> lambda_;
  std::string parts_;
};

std::vector<double> read_candidates(config::Section& parameters) {
  return parameters.alpha_grid(
      "tall_lambdas",
      "λ of the masks, of which the best on validation is chosen for each task (Wang et al. 2024): a task "
      "claims "
      "numbers with |τ_t| > λ|τ − τ_t|; one number is the λ of all",
      {0.2, 0.3, 0.4, 0.5, 0.6}, {0, 100});
}

/// One λ for all, or one a model.
std::vector<double> read_tall_lambda(config::Section& parameters) {
  constexpr config::Meaning meaning = {
      "λ of the masks: a task claims numbers with |τ_t| > λ|τ − τ_t|; more gives sparser masks; one number "
      "is "
      "the λ of all models, a list has each its own, in their order",
      {.values = "a number from 0 to 100, or a list of one a model"}};
  constexpr config::Range range = {0, 100};
  if (!parameters.is_list("tall_lambda")) return {parameters.real("tall_lambda", meaning, 0.4, range)};
  auto lambda = parameters.reals("tall_lambda", meaning, {}, range);
  if (lambda.empty())
    parameters.refuse("tall_lambda", "is empty; expected a number, or a list of one a model");
  return lambda;
}

std::shared_ptr<const VectorMethod> make_consensus_ta(config::Section parameters) {
  auto lambda = read_tall_lambda(parameters);
  return claimed(read_claims(parameters, false), std::move(lambda));
}

std::shared_ptr<const VectorMethod> make_consensus_ties(config::Section parameters) {
  auto whole = read_claims(parameters, true);
  return claimed(std::move(whole), read_tall_lambda(parameters));
}

MakeInRun read_chosen_consensus(config::Section& parameters, bool of_ties) {
  const auto lambda = read_candidates(parameters);
  const auto whole = read_claims(parameters, of_ties);
  return [=](const Place& place) -> std::shared_ptr<const Method> {
    if (lambda.size() == 1) return calibrated(place.calibration, claimed(whole, lambda));
    return std::make_shared<ChosenConsensus>(place, whole, lambda);
  };
}

MakeInRun read_consensus_ta(config::Section parameters, Scope) {
  return read_chosen_consensus(parameters, false);
}

MakeInRun read_consensus_ties(config::Section parameters, Scope) {
  return read_chosen_consensus(parameters, true);
}

}  // namespace
}  // namespace taugrid::merging

TAUGRID_MERGING_METHOD(
    consensus_ta, 80, make_consensus_ta, read_consensus_ta,
    "TALL masks (Wang et al. 2024): task arithmetic where at least two tasks claim the number as "
    "theirs",
    true, consensus_outputs)
TAUGRID_MERGING_METHOD(consensus_ties, 90, make_consensus_ties, read_consensus_ties,
                       "TALL masks on what TIES merges", true, consensus_outputs)
