// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// taugrid keys: the references of the experiment file and of recipes. Every reader is run on a configuration
// of no file, and says what it asks for; nothing is listed here a second time.
#include <fmt/core.h>

#include <algorithm>

#include "suite/experiments/experiment.hpp"
#include "suite/merging/recipe.hpp"
#include "suite/program/commands.hpp"
#include "suite/program/reference.hpp"

namespace taugrid::program {
namespace {

using config::KeyEntry;
using config::SectionEntry;

std::vector<SectionEntry> reference() {
  // What some readers ask for others beside.
  auto config = config::Config::describing({"data.control=control", "finetune.checkpoints=checkpoints",
                                            "finetune.given=[\"standard\", \"linear\"]"});
  study::InputFiles files(study::InputFiles::Mode::dry_run);  // all are missing
  const study::Study study(config, files);
  experiments::make_experiments(config, study);
  return config.reference();
}

std::string names(const SectionEntry& section) {
  std::string all;
  for (const auto& key : section.keys) all += (all.empty() ? "" : ", ") + key.key;
  return all;
}

/// Keys outside all sections have a heading of their own.
std::string heading(const SectionEntry& section) {
  if (section.name.empty()) return "Keys";
  return "[" + section.name + "]" + (section.owner.empty() ? "" : " of [" + section.owner + "]");
}

std::string presence(const SectionEntry& section) {
  return section.optional ? "Optional: without it, none of this is done." : "";
}

std::string again(const SectionEntry& section) { return "Any of these keys of [" + section.again + "]: "; }

void print_text(const std::vector<SectionEntry>& sections) {
  for (const auto& section : sections) {
    fmt::print("{}{}\n{}", &section == sections.data() ? "" : "\n", heading(section),
               wrapped(section.meaning + ". " + presence(section), "  "));
    if (!section.again.empty()) {
      fmt::print("{}", wrapped(again(section) + names(section) + ".", "  "));
      continue;
    }
    for (const auto& key : section.keys) {
      fmt::print("  {}\n{}{}{}", key.key, wrapped(key.meaning + ".", "      "),
                 wrapped("value: " + key.values, "      "), wrapped("default: " + key.fallback, "      "));
    }
  }
}

constexpr const char* about_experiments =
    "# The experiment file\n\n"
    "Every section and key, as the code reads them: made by `taugrid keys --markdown`, and compared with "
    "it by the "
    "tests.\n"
    "The file is TOML; paths in it are relative to its folder. `--set SECTION.KEY=VALUE` sets a key for "
    "one run. What\n"
    "is unknown is refused, with the nearest name. `RUN/config.toml` has every key with the value in "
    "force. A plain "
    "name has\nat most 64 letters, digits, `.`, `-` and single `_`, and begins with a letter or digit.\n\n"
    "`extends = \"base.toml\"`, before all sections, takes what another experiment file says and this one "
    "does not. Sections\n"
    "are merged key by key, a list takes the place of the base's list, and a base may extend another file. "
    "Each file's paths\n"
    "are relative to its own folder. `--set` has the last word, and `RUN/config.toml` extends nothing.\n";

constexpr const char* about_recipes =
    "# Recipes for `taugrid merge`\n\n"
    "Every key, as the code reads them: made by `taugrid keys --recipe --markdown`, and compared with it by "
    "the tests.\n"
    "A recipe is TOML; paths in it are relative to its folder. What is unknown is refused, with the nearest "
    "name. The\n"
    "words are mergekit's where they mean the same. `OUT/merge.toml` is a recipe with every key and the "
    "value in force.\n"
    "`[parameters]` has the keys of the method that `merge_method` names. `weight`, `density`, `gamma`, "
    "`epsilon`,\n`select_topk`, `t` and `lambda` may be a list, interpolated over the layers from the first "
    "to "
    "the last, or a list of\n"
    "`{ filter = \"PART OF A NAME\", value = … }`, of which the first that fits a tensor's name holds. "
    "Recipes in\nmergekit's YAML (`.yml`, `.yaml`) are read as they are. Statistics of batch norm are "
    "merged "
    "as other\n"
    "tensors are; variances are at least 0.\n";

/// The methods whose parameters these sections have, and what each makes of the vectors.
void print_methods(const std::vector<SectionEntry>& sections) {
  fmt::print("\n## Methods\n\n| method | the merged model |\n| --- | --- |\n");
  for (const auto& section : sections)
    if (!section.owner.empty())
      fmt::print("| [`{0}`](#parameters-of-{0}) | {1} |\n", section.owner, cell(section.meaning));
}

void print_markdown(const std::vector<SectionEntry>& sections) {
  for (const auto& section : sections) {
    fmt::print("\n## {}\n\n{}.{}{}\n\n", heading(section), section.meaning, section.optional ? " " : "",
               presence(section));
    if (!section.again.empty()) {
      fmt::print("{}`{}`.\n", again(section), names(section));
      continue;
    }
    if (section.keys.empty()) continue;
    fmt::print("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
    for (const auto& key : section.keys) {
      fmt::print("| `{}` | {} | {} | {} |\n", key.key, cell(key.values), cell(key.fallback),
                 cell(key.meaning));
    }
  }
}

}  // namespace

int keys(bool markdown, bool recipe) {
  const auto sections = recipe ? merging::recipe_reference() : reference();
  if (!markdown) {
    print_text(sections);
    return 0;
  }
  fmt::print("{}", recipe ? about_recipes : about_experiments);
  if (recipe) print_methods(sections);
  print_markdown(sections);
  return 0;
}

}  // namespace taugrid::program
