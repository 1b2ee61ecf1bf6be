// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/variants.hpp"

#include <algorithm>
#include <cmath>

#include "suite/config/canonical.hpp"

namespace taugrid::study {
namespace {

/// The key's numbers, each once; nothing alone where there are none.
std::vector<std::optional<double>> others(config::Section& section, const std::string& key,
                                          const config::Meaning& meaning, config::Range range) {
  const auto given = section.reals(key, meaning, {}, range);
  std::vector<std::optional<double>> values(given.begin(), given.end());
  for (auto it = values.begin(); it != values.end(); ++it)
    if (std::find(values.begin(), it, *it) != it)
      section.refuse(key, "holds " + config::canonical(**it) + " twice");
  if (values.empty()) values.emplace_back();
  return values;
}

}  // namespace

std::vector<Variant> read_variants(config::Config& config, const std::vector<std::string>& tasks) {
  auto section = config.optional_section(
      "variants",
      "Fine-tunes each task several times, with every one of these rates, steps and seeds; each model is "
      "measured as a task of its own, TASK-1, TASK-2, …, with the same data");
  if (!section) return {};
  const auto rates =
      others(*section, "learning_rate",
             {"Highest learning rates",
              {.fallback = "finetune.learning_rate", .values = "a list of numbers, each from 0 to 1000"}},
             {0, 1e3});
  const auto steps =
      others(*section, "steps",
             {"Steps of training",
              {.fallback = "finetune.steps", .values = "a list of integers, each from 1 to 1e7"}},
             {1, 1e7});
  for (const auto& each : steps)
    if (each && *each != std::floor(*each))
      section->refuse("steps", "holds " + config::canonical(*each) + "; expected integers");
  const auto seeds = section->integer(
      "seeds",
      "Orders of the training points, each drawn by run.seed; the first is that of a run without variants", 1,
      {1, 1e4});
  const auto of_a_task = static_cast<double>(rates.size() * steps.size()) * static_cast<double>(seeds);
  if (constexpr double most = 1e5; of_a_task * static_cast<double>(tasks.size()) > most)
    section->refuse("seeds", "makes more than 100000 models; expected fewer rates, steps or seeds");
  std::vector<Variant> all;
  for (const auto& task : tasks) {
    std::int64_t number = 0;
    for (const auto& rate : rates) {
      for (const auto& count : steps) {
        for (std::int64_t seed = 0; seed < seeds; ++seed) {
          Variant variant{task + "-" + std::to_string(++number), task, rate, {}, seed};
          if (count) variant.steps = static_cast<std::int64_t>(*count);
          all.push_back(std::move(variant));
        }
      }
    }
  }
  constexpr std::size_t longest = 64;  // of a plain name
  for (const auto& variant : all)
    if (variant.name.size() > longest) section->refuse("seeds", "the name " + variant.name + " is too long");
  return all;
}

}  // namespace taugrid::study
