// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/edits/chosen_merge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "suite/config/canonical.hpp"
#include "suite/experiments/bases/task_bases.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/merging/data/joint_models.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/safetensors.hpp"
#include "suite/study/clusters.hpp"
#include "suite/study/merged_tasks.hpp"
#include "suite/study/refusals.hpp"
#include "suite/study/task_sets.hpp"

namespace taugrid::experiments {
namespace {

constexpr config::Meaning of_alpha = {
    "Coefficients α of θ0 + ατ; the best on validation is chosen",
    {.fallback = "0.1, 0.2, … 2; of [merging.METHOD]: as [merging]'s, and 1 alone for linear, slerp and "
                 "methods with data, which have no coefficient"}};

constexpr config::Meaning of_tall_lambdas =
    "λ of the masks, of which the best on validation is chosen for each task (Wang et al. 2024): a task "
    "claims "
    "numbers with |τ_t| > λ|τ − τ_t|; one number is the λ of all";

constexpr config::Meaning stands_for = "The method that this name stands for";

/// The section of a name that stands for a method.
config::Section standing_in(config::Config& config, const config::Section& section, const std::string& name,
                            const std::vector<std::string>& known) {
  if (!config.has("merging." + name))
    section.refuse("methods", fmt::format("holds \"{}\"; expected each to be one of {}, or to have a section "
                                          "[merging.{}] with `method`, one of these",
                                          name, fmt::join(known, ", "), name));
  auto own =
      config.section("merging." + name, "A method again, under another name and with other parameters");
  own.required_word("method", stands_for, known);
  return own;
}

/// The method of this name; `usual`: the coefficients of methods that have one.
ChosenMerge read_method(config::Config& config, config::Section& section, const std::string& name,
                        const std::vector<std::string>& known, const std::vector<double>& usual,
                        const Study& study) {
  const bool describing = !config.root().has("merging");
  const auto& with_data = merging::names_with_data();
  const bool by_its_name = std::find(known.begin(), known.end(), name) != known.end();
  auto own = by_its_name ? config.section("merging." + name, merging::meaning_of(name))
                         : standing_in(config, section, name, known);
  ChosenMerge chosen;
  chosen.name = name;
  chosen.of = by_its_name ? name : own.required_word("method", stands_for, known);
  const bool of_data = std::find(with_data.begin(), with_data.end(), chosen.of) != with_data.end();
  const bool plain = of_data || chosen.of == "linear" || chosen.of == "slerp";
  chosen.alpha = own.alpha_grid("alpha", of_alpha, plain ? std::vector<double>{1} : usual, coefficients);
  std::vector<double> lambda;
  if (of_data) {
    if (!describing) study::refuse_filter(study, "merging." + name);
    chosen.with_data = merging::make_data_method(config, own, {"merging." + name, name}, chosen.of, study);
  } else if (merging::is_consensus(chosen.of)) {
    lambda = own.alpha_grid("tall_lambdas", of_tall_lambdas, {0.2, 0.3, 0.4, 0.5, 0.6}, {0, 100});
    auto consensus = merging::make_consensus(chosen.of, own);
    if (lambda.size() == 1) {
      chosen.method = consensus(lambda);
    } else {
      chosen.with_data = merging::make_chosen_consensus(std::move(consensus), lambda, name, study);
    }
  } else {
    chosen.method = merging::make(chosen.of, own);
  }
  chosen.parameters = own.values();
  if (lambda.size() == 1) chosen.parameters["tall_lambda"] = config::canonical(lambda.front());
  if (chosen.of == "mask_sharing" || chosen.of == "stitch_twice")
    chosen.masks = config.section("merging.localize_stitch", merging::meaning_of("localize_stitch")).values();
  for (const auto* other : {"alpha", "method", "tall_lambdas"}) chosen.parameters.erase(other);
  chosen.masks.erase("alpha");
  if (chosen.method && !describing)
    chosen.method->check("merging." + name, std::vector<double>(study.tasks.size(), 1.0));
  return chosen;
}

/// A tensor of a unit that is finished, perhaps on another host a moment ago.
at::Tensor tensor_of_unit(const Study& study, const std::string& key, const std::string& tensor) {
  const auto path = schedule::RunFolder::unit_path(study.vectors.folder(), key);
  store::wait_for(path);
  return store::read_tensor(path, tensor);
}

/// λ of each task's mask, in the order of the models.
std::vector<double> chosen_lambdas(const Study& study, const ChosenMerge& chosen, const std::string& name,
                                   const std::vector<std::size_t>& tasks) {
  std::vector<double> lambda;
  for (const auto t : tasks)
    lambda.push_back(tensor_of_unit(study, chosen.part_key(study, name, t), "lambda").item<double>());
  return lambda;
}

/// Comment lines of the masks that were stitched, and of the clusters that share them.
std::string masks_taken(const Study& study, const ChosenMerge& chosen, const std::string& name,
                        const std::vector<std::size_t>& tasks) {
  std::string text = "# Its masks are those of [merging.localize_stitch]:\n";
  for (const auto& [key, value] : chosen.masks) text += fmt::format("#   {} = {}\n", key, value);
  const auto labels = study::labels_of(tensor_of_unit(study, key::merging(chosen.name, name), "labels"));
  std::vector<std::string> clusters;
  for (const auto& members : study::clusters_by(tasks, labels))
    clusters.push_back(study::joined_names(study, members));
  return text + fmt::format("# The clusters that it took: {}\n", fmt::join(clusters, ", "));
}

}  // namespace

std::string ChosenMerge::part_key(const Study& study, const std::string& regime_name, std::size_t t) const {
  return key::merging_data(with_data->parts_of(name), regime_name, study.tasks.name(t));
}

std::vector<std::string> ChosenMerge::needs(const Study& study, const std::string& regime_name) const {
  if (!with_data) return {};
  auto keys = with_data->needs(regime_name);
  for (const auto t : study.tasks.all())
    if (with_data->has_parts()) keys.push_back(part_key(study, regime_name, t));
  return keys;
}

std::optional<MergingChoice> read_merging(config::Config& config, const Study& study) {
  auto section = config.optional_section("merging", merging::of_merging);
  if (!section) return std::nullopt;
  study::require_vectors(study, "merging");
  const bool describing = !config.root().has("merging");
  auto known = merging::names();
  const auto& with_data = merging::names_with_data();
  known.insert(known.end(), with_data.begin(), with_data.end());
  constexpr config::Meaning meaning =
      "Which methods; each has a section of its own, and another name stands for one where its section says "
      "`method`";
  const auto names = describing ? section->required_words("methods", meaning, known)
                                : section->required_names("methods", meaning);
  std::vector<double> usual;
  for (int k = 1; k <= 20; ++k) usual.push_back(0.1 * k);
  usual = section->alpha_grid("alpha", of_alpha, usual, coefficients);
  MergingChoice choice;
  if (describing) standing_in(config, *section, "NAME", known);
  for (const auto& name : describing ? known : names)
    choice.methods.push_back(read_method(config, *section, name, known, usual, study));
  choice.save = section->flag(
      "save", "Whether the chosen models are written, as Hugging Face folders RUN/merged/METHOD/REGIME",
      false);
  return choice;
}

std::string merge_recipe(const Study& study, const ChosenMerge& chosen, const std::string& name,
                         const std::vector<std::size_t>& tasks, double alpha,
                         const std::filesystem::path& to) {
  const auto from_here = [&](const std::filesystem::path& path) {
    return config::canonical(path.lexically_relative(to).string());
  };
  const bool of_vectors = !chosen.with_data || chosen.with_data->of_vectors();
  std::string text = fmt::format("# {} of {}, by taugrid run; α = {} has the best validation accuracy.\n",
                                 chosen.name, name, config::canonical(alpha));
  if (regime(name).linear)
    text += "# A linear regime's: f(x; θ0) + J(x)(θ − θ0) was evaluated, not f(x; θ) of these weights.\n";
  auto parameters = chosen.parameters;
  if (chosen.with_data && merging::is_consensus(chosen.of)) {
    text += "# Each model's tall_lambda is the one that validation points of its own task chose.\n";
    parameters["tall_lambda"] = config::canonical(chosen_lambdas(study, chosen, name, tasks));
  } else if (chosen.with_data) {
    text += "# Its data are the run's: taugrid run makes it again, taugrid merge cannot.\n";
    if (const auto model = chosen.with_data->checkpoint(name); !model.empty())
      text += fmt::format("# Its weights before lambda are those of {}\n", from_here(model));
  }
  if (!chosen.masks.empty()) text += masks_taken(study, chosen, name, tasks);
  if (chosen.of.starts_with("dare_"))  // draws depend on a number's place
    text +=
        "# Draws follow the order of the tensors, which is that of names in a folder: others are drawn "
        "here.\n";
  if (study.model.name() == "pretrained") {
    text += fmt::format("base_model = {}\n", from_here(study.vectors.folder() / "checkpoints/pretrained"));
  } else {
    text += "# base_model: drawn at random by the run's seed\n";
  }
  text += fmt::format("merge_method = {}\nout = \"again\"\n", config::canonical(chosen.of));
  for (const auto t : of_vectors ? tasks : std::vector<std::size_t>{})
    text += fmt::format("[[models]]\nmodel = {}\n", from_here(study.vectors.checkpoint_folder(name, t)));
  text += fmt::format("[parameters]\nlambda = {}\n", config::canonical(alpha));
  for (const auto& [key, value] : parameters) text += fmt::format("{} = {}\n", key, value);
  return text;
}

}  // namespace taugrid::experiments
