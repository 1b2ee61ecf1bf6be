// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/run_checkpoints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <string_view>
#include <system_error>

#include "suite/config/canonical.hpp"
#include "suite/merging/layers.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using config::canonical;

constexpr std::string_view name_begins = "checkpoint-";
constexpr std::size_t digits_most = 15;  // which a double holds
constexpr std::size_t weights_most = 8;
using Checkpoints = std::map<std::int64_t, std::string>;  // N, the folder's name

/// The run's folders checkpoint-N. What has another name is none of them: a run holds more than checkpoints.
Checkpoints checkpoints_in(const fs::path& run, const config::Section& section) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(run, error), end; !error && entry != end; entry.increment(error))
    names.insert(entry->path().filename().string());
  if (error)
    section.refuse("run", fmt::format("{} cannot be read: {}; expected the folder of a run, with {}N in it",
                                      canonical(run.string()), error.message(), name_begins));
  Checkpoints all;
  for (const auto& name : names) {
    const auto digits = std::string_view(name).substr(std::min(name_begins.size(), name.size()));
    if (!name.starts_with(name_begins) || !is_number(digits) || digits.size() > digits_most) continue;
    std::int64_t step = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), step);
    if (!fs::is_directory(run / name, error))
      section.refuse("run", (run / name).string() + " is no folder; expected a checkpoint");
    if (const auto twin = all.emplace(step, name); !twin.second)
      section.refuse("run", fmt::format("{} has both {} and {}; expected one checkpoint of a number",
                                        canonical(run.string()), twin.first->second, name));
  }
  return all;
}

/// w_i of n checkpoints: 1 for i = 0, and 0 for i = n.
double share_left(const std::string& schedule, double decay, std::size_t i, std::size_t n) {
  const auto place = static_cast<double>(i) / static_cast<double>(n);
  if (schedule == "1-sqrt") return 1 - std::sqrt(place);
  if (schedule == "cosine") return (1 + std::cos(std::numbers::pi * place)) / 2;
  return i == 0 ? 1 : 1 - std::pow(decay, static_cast<double>(n - i));
}

double weight_of(const std::string& schedule, double decay, std::size_t j, std::size_t n) {
  if (schedule == "mean") return 1 / static_cast<double>(n);
  return share_left(schedule, decay, j, n) - share_left(schedule, decay, j + 1, n);
}

/// Which of the run's checkpoints are meant, in ascending order.
std::vector<double> read_steps(config::Section& section, const Checkpoints& all, const fs::path& run,
                               bool describing) {
  std::vector<double> steps;
  for (const auto& entry : all) steps.push_back(static_cast<double>(entry.first));
  steps = section.reals(
      "steps",
      {"Their numbers N, in ascending order: merge.toml has those that were there", {.fallback = "all"}},
      steps, {0, 1e15});
  const auto last = section.integer("last", {"How many of these, the latest", {.fallback = "all"}},
                                    std::ssize(steps), {2, 1e6});
  if (describing) return steps;
  const auto refuse = [&](const std::string& problem) {
    section.refuse(section.has("steps") ? "steps" : "run", problem);
  };
  if (steps.size() < 2)
    refuse(fmt::format("{} has {} of the folders {}N; expected two at least", canonical(run.string()),
                       steps.size(), name_begins));
  if (std::ssize(steps) < last)
    section.refuse("last", fmt::format("is {}, and there are {} checkpoints in {}; expected at most as many",
                                       last, steps.size(), canonical(run.string())));
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i] <= steps[i - 1])
      refuse(fmt::format("has {} behind {}; expected them in ascending order", steps[i], steps[i - 1]));
  steps.erase(steps.begin(), steps.end() - last);
  for (const auto step : steps)
    if (step != std::floor(step) || !all.contains(static_cast<std::int64_t>(step)))
      refuse(fmt::format("has {0}, and {1} has no {2}{0}; expected checkpoints that are there", step,
                         canonical(run.string()), name_begins));
  return steps;
}

}  // namespace

std::vector<WeightedCheckpoint> read_checkpoints(config::Section& section, bool describing,
                                                 std::vector<std::string>& notes) {
  const auto run = section.required_path(
      "run",
      "The folder of a run, in which checkpoint-N is the model after N steps, as transformers' Trainer "
      "writes it");
  const auto schedule = section.word(
      "schedule",
      "The decay that the weights stand for: mean, which is a linear one, cosine, 1-sqrt (1 − "
      "√), or ema: the average that is moved by 1 − decay towards each checkpoint, from the first on",
      "mean", {"mean", "cosine", "1-sqrt", "ema"});
  double decay = 0;
  if (describing || schedule == "ema") {
    decay = section.real("decay", "What ema leaves of the average before", 0.9, {0, 0.9999, true});
    section.require_one_number("decay");
  } else if (section.has("decay")) {
    section.refuse("decay", "is of ema, and schedule is " + canonical(schedule) + "; expected none");
  }
  const auto all = describing ? Checkpoints{} : checkpoints_in(run, section);
  const auto steps = read_steps(section, all, run, describing);
  if (describing) return {};

  std::vector<WeightedCheckpoint> checkpoints;
  std::vector<std::string> weights;
  bool even = true;
  const auto n = steps.size();
  for (auto j = n; j-- > 0;) {
    checkpoints.push_back(
        {run / all.at(static_cast<std::int64_t>(steps[j])), weight_of(schedule, decay, j, n)});
    weights.push_back(fmt::format("{:.4g}", checkpoints.back().weight));
    even = even && (j < 2 || steps[j] - steps[j - 1] == steps[j - 1] - steps[j - 2]);
  }
  if (n > weights_most) weights = {weights.front(), "…", weights.back()};
  notes.push_back(
      fmt::format("{} checkpoints of {}, from {} back to {}, {}: weights {}{}", n, canonical(run.string()),
                  steps.back(), steps.front(), schedule, fmt::join(weights, ", "),
                  even ? "" : "; their steps lie at unequal distances, and weights count checkpoints"));
  return checkpoints;
}

}  // namespace taugrid::merging
