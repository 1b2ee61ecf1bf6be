// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/experiments/edits/merging_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "suite/config/canonical.hpp"
#include "suite/experiments/experiment.hpp"
#include "suite/experiments/grids.hpp"
#include "suite/merging/data/data_method.hpp"
#include "suite/merging/table.hpp"
#include "suite/study/refusals.hpp"

namespace taugrid::experiments {
namespace {

constexpr config::Meaning of_alpha = {
    "Coefficients α of θ0 + ατ; the best on validation is chosen",
    {.fallback = "0.1, 0.2, … 2; of [merging.METHOD]: as [merging]'s, and 1 alone for methods that have no "
                 "coefficient, such as linear and those with data"}};

constexpr config::Meaning of_methods =
    "Which methods; each has a section of its own, and another name stands for one where its section says "
    "`method`";

constexpr config::Meaning stands_for = "The method that this name stands for";

config::Section section_of(config::Config& config, const merging::Entry& method) {
  return config.section(std::string("merging.") + method.name, method.meaning);
}

/// The section of a name that stands for a method.
config::Section standing_in(config::Config& config, const std::string& name) {
  auto section =
      config.section("merging." + name, "A method again, under another name and with other parameters");
  section.required_word("method", stands_for, merging::names());
  return section;
}

/// Reads a method's coefficients; `usual`: those of methods that have one.
std::vector<double> read_alpha(config::Section& section, const merging::Entry& method,
                               const std::vector<double>& usual) {
  return section.alpha_grid("alpha", of_alpha, method.has_coefficient ? usual : std::vector<double>{1},
                            coefficients);
}

/// The method of this name.
ChosenMerge read_method(config::Config& config, const config::Section& section, const std::string& name,
                        const std::vector<double>& usual, const std::vector<std::string>& regimes,
                        const Study& study) {
  const auto& known = merging::names();
  const bool by_its_name = std::find(known.begin(), known.end(), name) != known.end();
  if (!by_its_name && !config.has("merging." + name))
    section.refuse("methods", fmt::format("holds \"{}\"; expected each to be one of {}, or to have a section "
                                          "[merging.{}] with `method`, one of these",
                                          name, fmt::join(known, ", "), name));
  auto method_section = by_its_name ? section_of(config, merging::entry(name)) : standing_in(config, name);
  const auto& method =
      merging::entry(by_its_name ? name : method_section.required_word("method", stands_for, known));
  ChosenMerge chosen{{method.name, name, {}}, read_alpha(method_section, method, usual), {}};
  if (method.takes_data()) study::refuse_filter(study, "merging." + name);
  chosen.method = method.read(
      method_section, {.tasks = study.tasks.size()})({config, study, "merging." + name, name, regimes});
  chosen.method->check("merging." + name, std::vector<double>(study.tasks.size(), 1.0));
  chosen.parameters = method_section.values();
  for (const auto* other : {"alpha", "method", "tall_lambdas"}) chosen.parameters.erase(other);
  return chosen;
}

/// Says of every method what its section may have, for the reference.
void describe_methods(config::Config& config, config::Section& section, const std::vector<double>& usual,
                      const Study& study) {
  section.required_words("methods", of_methods, merging::names());
  section.alpha_grid("alpha", of_alpha, usual, coefficients);
  standing_in(config, "NAME");
  for (const auto* method : merging::methods()) {
    auto method_section = section_of(config, *method);
    read_alpha(method_section, *method, usual);
    method->read(method_section, {.tasks = study.tasks.size()});
  }
}

}  // namespace

std::optional<MergingChoice> read_merging(config::Config& config, const Study& study) {
  auto section = config.optional_section("merging", merging::of_merging);
  if (!section) return std::nullopt;
  study::require_vectors(study, "merging");
  std::vector<double> usual;
  for (int k = 1; k <= 20; ++k) usual.push_back(0.1 * k);
  MergingChoice choice;
  choice.regimes = section->words("regimes",
                                  {"Regimes whose vectors are merged; [] for all that have task vectors",
                                   {.values = "a list of some of finetune.regimes"}},
                                  {}, study.settings.vector_regimes);
  if (choice.regimes.empty()) choice.regimes = study.settings.vector_regimes;
  if (config.root().has("merging")) {
    const auto names = section->required_names("methods", of_methods);
    if (names.empty()) section->refuse("methods", "is empty; expected one method at least");
    usual = section->alpha_grid("alpha", of_alpha, usual, coefficients);
    for (const auto& name : names) {
      choice.methods.push_back(read_method(config, *section, name, usual, choice.regimes, study));
    }
  } else {
    describe_methods(config, *section, usual, study);
  }
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
  std::string text = fmt::format("# {} of {}, by taugrid run; α = {} has the best validation accuracy.\n",
                                 chosen.name, name, config::canonical(alpha));
  if (regime(name).linear)
    text += "# A linear regime's: f(x; θ0) + J(x)(θ − θ0) was evaluated, not f(x; θ) of these weights.\n";
  const auto note = chosen.method->recipe_note(name, tasks);
  text += note.comments;
  if (const auto model = chosen.method->checkpoint(name); !model.empty())
    text += fmt::format("# Its weights before lambda are those of {}\n", from_here(model));
  auto parameters = chosen.parameters;
  for (const auto& [key, value] : note.parameters) parameters[key] = value;
  if (study.model.name() == "pretrained") {
    text += fmt::format("base_model = {}\n", from_here(study.vectors.folder() / "checkpoints/pretrained"));
  } else {
    text += "# base_model: drawn at random by the run's seed\n";
  }
  text += fmt::format("merge_method = {}\nout = \"again\"\n", config::canonical(chosen.method_name));
  for (const auto t : chosen.method->reads_vectors() ? tasks : std::vector<std::size_t>{})
    text += fmt::format("[[models]]\nmodel = {}\n", from_here(study.vectors.checkpoint_folder(name, t)));
  text += fmt::format("[parameters]\nlambda = {}\n", config::canonical(alpha));
  for (const auto& [key, value] : parameters) text += fmt::format("{} = {}\n", key, value);
  return text;
}

}  // namespace taugrid::experiments
