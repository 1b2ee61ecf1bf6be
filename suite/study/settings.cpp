// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/study/settings.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "suite/hash.hpp"
#include "suite/store/tensor_folder.hpp"
#include "suite/study/regime.hpp"

namespace taugrid::study {
namespace {

bool holds(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs all_pairs(std::size_t tasks) {
  Pairs all;  // (0,1), (0,2), … as the contract has them
  for (std::size_t i = 0; i < tasks; ++i) {
    for (std::size_t j = i + 1; j < tasks; ++j) all.emplace_back(i, j);
  }
  return all;
}

/// `count` of all pairs, each set of them equally likely.
Pairs drawn_pairs(const Settings& settings, std::int64_t count) {
  const auto all = all_pairs(settings.tasks.size());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed_for(settings.seed, "pairs"));
  const auto order = at::randperm(static_cast<std::int64_t>(all.size()), generator, at::kLong);
  const auto some = std::get<0>(order.narrow(0, 0, count).sort());
  Pairs pairs;
  for (std::int64_t k = 0; k < count; ++k)
    pairs.push_back(all[static_cast<std::size_t>(some[k].item<std::int64_t>())]);
  return pairs;
}

/// "a+b" of two of the tasks, in either order.
Pairs named_pairs(config::Section& section, const Settings& settings, const std::vector<std::string>& names) {
  Pairs pairs;
  for (const auto& name : names) {
    const auto all = all_pairs(settings.tasks.size());
    const auto place = std::find_if(all.begin(), all.end(), [&](const auto& pair) {
      const auto &a = settings.tasks[pair.first], &b = settings.tasks[pair.second];
      return name == a + "+" + b || name == b + "+" + a;
    });
    if (place == all.end())
      section.refuse("pairs", "\"" + name + "\" is no pair of data.tasks; expected \"TASK+TASK\"");
    if (std::find(pairs.begin(), pairs.end(), *place) != pairs.end())
      section.refuse("pairs", "\"" + name + "\" stands there twice");
    pairs.push_back(*place);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

/// Before memory is taken for each of their pairs.
void require_few_tasks(config::Section& section, std::size_t count, const std::string& does) {
  constexpr std::size_t most_tasks = 2000;
  if (count > most_tasks)
    section.refuse("tasks", does + " " + std::to_string(count) + " tasks; expected at most " +
                                std::to_string(most_tasks));
}

Pairs read_pairs(config::Section& section, const Settings& settings) {
  constexpr std::size_t most_pairs = 100'000;
  const config::Meaning meaning = {
      "Which pairs of tasks are measured: all, so many drawn by run.seed, or those listed",
      {.values = "\"all\", an integer of at least 1, or a list of \"TASK+TASK\""}};
  const auto tasks = static_cast<double>(settings.tasks.size());
  if (section.is_number("pairs"))
    return drawn_pairs(settings, section.integer("pairs", meaning, 0,
                                                 {1, std::min<double>(most_pairs, tasks * (tasks - 1) / 2)}));
  if (section.is_list("pairs"))
    return named_pairs(section, settings, section.required_words("pairs", meaning));
  if (const auto word = section.word("pairs", meaning, "all"); word != "all")
    section.refuse("pairs", "is \"" + word + "\"; expected " + std::string(meaning.in_words.values));
  auto all = all_pairs(settings.tasks.size());
  if (all.size() > most_pairs)
    section.refuse("pairs", "is \"all\", which are " + std::to_string(all.size()) + "; expected at most " +
                                std::to_string(most_pairs) + ", such as a number of pairs to be drawn");
  return all;
}

constexpr config::Meaning given_means = {
    "Regimes whose models are read from checkpoints and not trained",
    {.fallback = "the regimes that others start from, where finetune.regimes does not name them",
     .values = "a list of regimes, none that is joint or made from another"}};

/// What is trained and what is given is said by the configuration alone, never by what lies in a folder
/// today.
void read_given(config::Section section, std::vector<std::string> needed, Settings& settings,
                InputFiles& files) {
  settings.checkpoints = section.path("checkpoints",
                                      "The folder RUN/checkpoints of another run, or one of models in "
                                      "REGIME/TASK, from which the given regimes are read",
                                      {});
  if (settings.checkpoints.empty()) {
    if (section.has("given")) section.refuse("given", "has no folder; name it in finetune.checkpoints");
    return;
  }
  needed.insert(needed.begin(), settings.given.begin(), settings.given.end());
  settings.given = needed;
  section.words("given", given_means, settings.given);  // into the resolved configuration
  if (settings.given.empty())
    section.refuse("checkpoints", "no regime is taken from there; name those in finetune.given");
  for (const auto& name : settings.given) {
    InputFile input{name, settings.checkpoints / name, "found"};
    for (const auto& task : settings.tasks) {
      const auto folder = input.path / task;
      if (store::TensorFolder::is_in(folder)) continue;
      const auto problem = (folder / "model.safetensors").string() + " is not there, and no index of parts";
      if (!files.is_dry_run()) section.refuse("checkpoints", problem);
      input.missing = true;
      input.state = problem;
      break;
    }
    files.list(std::move(input));
  }
}

/// Each of several fine-tunings of one task starts at θ0, and has no other task to look at.
void require_variants(config::Section& section, const Settings& settings) {
  if (settings.variants.empty()) return;
  for (const auto& name : settings.regimes) {
    const auto& r = regime(name);
    if (r.joint || r.penalty != Penalty::none)
      section.refuse("regimes",
                     name + " trains on other tasks, of which [variants] has only copies of the same");
  }
}

void read_regimes(config::Section section, Settings& settings, InputFiles& files) {
  settings.regimes =
      section.words("regimes", "The ways in which every task is trained, each explained in docs/regimes.md",
                    {"standard", "linear"}, regime_names());
  for (const auto& name : settings.regimes)
    (regime(name).joint ? settings.joint_regimes : settings.vector_regimes).push_back(name);
  require_variants(section, settings);
  settings.first_stage =
      static_cast<int>(section.integer("first_stage",
                                       {"The first stage of the model that is trained, those before are "
                                        "frozen: 0 is the embedding, 1 the first layer",
                                        {.values = "an integer from 0 to the model's layers + 1"}},
                                       0, {0, 10'000}));

  auto& low_rank = settings.low_rank;
  low_rank.rank = section.integer("lora_rank", "r of the regime lora: the rank of s·B·A in each matrix",
                                  low_rank.rank, {1, 65'536});
  low_rank.alpha =
      section.real("lora_alpha", "α of the regime lora, whose s is α/r", low_rank.alpha, {1e-6, 1e6});
  low_rank.modules = section.words(
      "lora_modules",
      {"Linear layers of attention and of MLPs that the regime lora adapts, by their names or the "
       "ends of these, as PEFT's target_modules; empty: all of them",
       {.values = "a list of names, such as q_proj"}},
      {});

  // Whose task vectors are wanted besides. A regime that is given needs none to start from.
  std::vector<std::string> makers;
  for (const auto& name : regime_names()) {
    if (!regime(name).joint && regime(name).source.empty()) makers.push_back(name);
  }
  if (section.has("given")) settings.given = section.required_words("given", given_means, makers);
  std::vector<std::string> needed;
  for (const auto& name : settings.regimes) {
    const auto& r = regime(name);
    const auto& other = r.source.empty() ? r.start : r.source;
    if (other.empty() || holds(settings.regimes, other) || holds(settings.given, name)) continue;
    if (holds(settings.given, other) || holds(needed, other)) continue;
    if (!section.has("checkpoints")) {
      auto list = "\"" + other + "\"";
      for (const auto& each : settings.regimes) list += ", \"" + each + "\"";
      section.refuse("regimes", name + " needs the task vectors of " + other +
                                    ": train them too, with --set '" + "finetune.regimes=[" + list +
                                    "]', or name those of another run with finetune.checkpoints = "
                                    "\"RUN/checkpoints\"");
    }
    needed.push_back(other);
  }
  read_given(section, needed, settings, files);
}

}  // namespace

std::uint64_t seed_for(std::uint64_t seed, const std::string& purpose) {
  const auto hash = fnv1a(purpose, fnv_start ^ (seed * 0x9e3779b97f4a7c15ULL));
  return hash >> 1;  // at::randperm's generator takes it as it is; the sign bit stays free
}

bool Settings::trains(const std::string& regime_name) const {
  return regime(regime_name).source.empty() && !holds(given, regime_name);
}

std::vector<std::string> Settings::linear_regimes() const {
  std::vector<std::string> names;
  for (const auto& regime_name : vector_regimes) {
    if (regime(regime_name).linear) names.push_back(regime_name);
  }
  return names;
}

std::optional<config::Section> finetune_section(config::Config& config) {
  return config.optional_section("finetune", "Fine-tunes the model on each task, by one or several regimes");
}

Settings read_settings(config::Config& config, InputFiles& files) {
  Settings settings;
  auto run = config.section("run", "The run as a whole: its name, its seed, what a rank may use");
  settings.name =
      run.name("name", "The run's name; its folder is runs/NAME where no --run-dir names another", "taugrid");
  settings.seed = static_cast<std::uint64_t>(
      run.integer("seed", "Every random number follows from it, however many ranks there are", 0, {0, 1e15}));
  settings.threads =
      static_cast<int>(run.integer("threads_per_rank", "Cores that each rank computes with", 1, {1, 1024}));
  settings.ranks_per_unit = static_cast<int>(
      run.integer("ranks_per_unit", "Ranks that compute one unit together; the launch needs at least as many",
                  1, {1, 1e6}));
  settings.precision = run.word("precision",
                                "Numbers of passes of the model: tf32 is for GPUs that have it; bf16 keeps "
                                "weights, losses and sums in float32; bf16_products rounds the factors of products "
                                "alone, for hosts whose processors have AMX",
                                "float32", {"float32", "tf32", "bf16", "bf16_products"});
  settings.memory = run.real("memory",
                             {"GiB that a rank may keep of task vectors and samples",
                              {.fallback = "0: a share of half the host's memory, or 0.4 of a GPU's"}},
                             0, {0, 1e6}) *
                    (std::int64_t{1} << 30);

  auto model = config.section("model", "The pre-trained model θ0 that every task starts from");
  settings.model = model.required_path("path",
                                       "A Hugging Face folder with config.json and model.safetensors; with "
                                       "init = \"random\" the former will do");
  settings.random_init =
      model.word("init", "Whether θ0 is the folder's weights, or drawn at random in its shape", "pretrained",
                 {"pretrained", "random"}) == "random";
  settings.drawn_by_open_clip =
      model.word("drawn_as",
                 "Whose start at random: Hugging Face's of the architecture, or, of a CLIP, open_clip's, which "
                 "the tangent-space paper takes",
                 "hugging_face", {"hugging_face", "open_clip"}) == "open_clip";
  settings.in_memory = model.word(
      "in_memory",
      "Whether a rank holds whole models in float32, or, of given models that are larger than its memory, "
      "stages made of their files: one at a time as it runs, or those of its stretch, where the ranks of "
      "run.ranks_per_unit stand in a line that shares out a model's stages",
      "whole", {"whole", "stages", "stretches"});
  settings.buffers = model.word(
      "buffers",
      "What editing does to statistics such as batch norm's: they are computed again for the edited "
      "weights, averaged as weights are, or θ0's are kept",
      "recompute", {"recompute", "average", "keep"});
  settings.buffers_points = model.integer(
      "buffers_points",
      "Training points, of all edited tasks together, over which model.buffers = recompute takes statistics",
      256, {1, 1e7});
  settings.words_frozen =
      model.word("label_words",
                 "What reads label words: the vocabulary as a part of θ; or θ0's rows of it, and what lies "
                 "between them and a language model's features stays θ0's",
                 "trained", {"trained", "frozen"}) == "frozen";

  settings.trains_heads = config.has("heads");

  auto data = config.section("data", "The tasks, and how many of their points are looked at");
  settings.data = data.required_path("folder", "Where the packed tasks lie, one file TASK.h5 each");
  settings.tasks =
      data.required_names("tasks", "The tasks by name; the order matters to tau_jp_incremental alone");
  if (settings.tasks.empty()) data.refuse("tasks", "names no task");
  require_few_tasks(data, settings.tasks.size(), "names");
  settings.variants = read_variants(config, settings.tasks);
  require_few_tasks(data, settings.variants.size(), "and [variants] make");
  if (!settings.variants.empty()) settings.tasks.clear();
  for (const auto& variant : settings.variants) settings.tasks.push_back(variant.name);
  settings.evaluation_points = data.integer(
      "evaluation_points",
      "Points of each test and validation split that accuracies and losses are taken over", 256, {1, 1e7});
  settings.evaluation_batch =
      data.integer("evaluation_batch", "Points that pass through the model at once: fewer take less memory",
                   128, {1, 1e6});
  settings.control =
      data.name("control", "A further task, none of tasks, that negation and the τJp penalty watch", "");
  const bool is_varied =
      std::any_of(settings.variants.begin(), settings.variants.end(),
                  [&](const Variant& variant) { return variant.data == settings.control; });
  if (is_varied || holds(settings.tasks, settings.control))
    data.refuse("control", "\"" + settings.control + "\" is also one of the tasks");
  settings.control_points =
      data.integer("control_points",
                   {"Points of each of the control's test and validation splits: of them depends how sharply "
                    "negation sees that the control is kept",
                    {.fallback = "evaluation_points"}},
                   settings.evaluation_points, {1, 1e7});
  settings.beat_majority = data.flag("beat_majority",
                                     "Whether merging, bases and subsets leave out tasks whose own model, of "
                                     "the regime, is not right on more "
                                     "validation points than the most frequent class has (paper 2's filter)",
                                     false);
  settings.pairs = read_pairs(data, settings);

  if (auto finetune = finetune_section(config)) read_regimes(*finetune, settings, files);
  return settings;
}

}  // namespace taugrid::study
