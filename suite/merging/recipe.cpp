// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/recipe.hpp"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/merging/adapter.hpp"
#include "suite/merging/mergekit_recipe.hpp"
#include "suite/merging/run_checkpoints.hpp"
#include "suite/merging/table.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;

constexpr config::Meaning of_root = "What is merged, how, and where to";
constexpr config::Meaning of_models = "The models that are merged, each a table in the list";
constexpr config::Meaning of_checkpoints =
    "In place of models: checkpoints of one training run, averaged by linear in the place of a decay of its "
    "learning rate (WSM, Tian et al. 2025), with weights by their order; without base_model, the result has "
    "the latest one's configuration";
constexpr config::Meaning of_slices =
    "In place of models: layers of the merged model, from the first to the last, each a table in the list, "
    "whose parameters have numbers of [parameters] for this slice alone; tensors that stand before all "
    "layers are "
    "those of the first slice, those behind them of the last";
constexpr config::Meaning of_adapter =
    "out is a LoRA adapter of base_model in place of a whole model, as PEFT loads it: with neither key, of "
    "the adapters' ranks added up, which loses nothing";
constexpr config::Meaning of_tokenizer =
    "The vocabulary of the merged model: before any method, each model's embeddings and head get a row for "
    "each token of it, found by the models' tokenizers. A row that a model lacks is that of the one model "
    "that has it, else the base's, else the mean of those that do; zero, where nobody has it. Without this "
    "section rows are merged as they stand";
constexpr config::Meaning of_tokens =
    "Tokens whose rows are chosen; what the vocabulary lacks is added to it";
constexpr config::Meaning of_sources = "The models whose layers make the slice's, as many of each";
constexpr config::Meaning of_method = "How the task vectors τ = θ − θ0 become one";
constexpr config::Meaning of_weight = {"w: its vector counts w times",
                                       {.fallback = "that of [parameters], or 1.0"}};
constexpr config::Range weight_range = {-1e3, 1e3};

/// A parameter of a method that a model may have in place of that of [parameters].
struct OfModel {
  const char* key;
  config::Meaning meaning;
  config::Range range;
};
constexpr config::InWords of_parameters = {.fallback = "that of [parameters]"};
constexpr std::array of_model = {
    OfModel{"density",
            {"The density of this model, in place of that of [parameters], where the method has one",
             of_parameters},
            config::some_share},
    OfModel{
        "gamma", {"The share of outliers of this model, where the method has one", of_parameters}, {0, 1}},
    OfModel{
        "epsilon", {"The epsilon of this model's drops, where the method has one", of_parameters}, {0, 1}},
};
constexpr const char* passthrough = "passthrough";
constexpr config::Meaning of_passthrough =
    "One model as it stands, times its weight: with slices, layers of several in one stack";

/// What every method takes beside its own parameters.
void read_shared(config::Section& parameters, const std::string& method, bool describing) {
  parameters.real("lambda", "The merged model is θ0 + λτ", 1, weight_range);
  if (describing || parameters.has("weight"))
    parameters.real("weight", {"w of models that say none", {.fallback = "1.0"}}, 1, weight_range);
  if (method == "linear")
    parameters.flag("normalize", "Whether the sum is divided by the weights' sum: else it is Σ w θ", true);
}

/// The tables of the array `key` of a section: at least one.
std::vector<config::Section> tables(config::Section& section, const std::string& key,
                                    const config::Meaning& meaning) {
  std::vector<std::string> steps;
  while (section.has(key + "." + config::entry_step(steps.size())))
    steps.push_back(key + "." + config::entry_step(steps.size()));
  const auto sections =
      section.parts(steps, "[" + key + "]", meaning);  // by name: "models.#10" before "models.#2"
  std::vector<config::Section> ordered;
  for (const auto& step : steps) ordered.push_back(sections.at(step));
  if (steps.empty()) {
    if (!sections.empty()) return {sections.begin()->second};  // for the reference
    section.refuse(key, "expected a list of tables, such as [ { model = \"FOLDER\" } ]");
  }
  return ordered;
}

/// A model of models, or of a slice's sources.
Recipe::Source read_source(config::Section& source, Recipe& recipe, bool in_slice, bool says_weight,
                           bool describing) {
  const auto folder =
      source.required_path("model",
                           "The folder of a model: config.json and model.safetensors, or "
                           "its parts and their index; or of a LoRA adapter of base_model, as "
                           "PEFT saves it");
  auto place = static_cast<std::size_t>(std::find(recipe.models.begin(), recipe.models.end(), folder) -
                                        recipe.models.begin());
  if (place == recipe.models.size() || !in_slice) {  // several slices may be of one model
    place = recipe.models.size();
    recipe.models.push_back(folder);
  }
  Recipe::Source read{place, {}, {}, source.where("model")};
  if (in_slice) {
    const auto range = source.required_reals(
        "layer_range", {"The layers [a, b]: a, a + 1, …, b − 1, from 0 on", {.values = "two integers"}},
        {0, 1e6});
    if (!describing && (range.size() != 2 || range[0] != std::floor(range[0]) ||
                        range[1] != std::floor(range[1]) || range[0] >= range[1]))
      source.refuse("layer_range", "expected [a, b]: the layers from a on and before b");
    if (!describing)
      read.layers = {static_cast<std::int64_t>(range[0]), static_cast<std::int64_t>(range[1] - range[0])};
    read.where = source.where("layer_range");
  }
  if (says_weight || source.has("weight")) source.real("weight", of_weight, 1, weight_range);
  for (const auto& parameter : of_model)
    if (describing || source.has(parameter.key))
      source.real(parameter.key, parameter.meaning, 1, parameter.range);
  read.own_settings = source.settings();
  return read;
}

void read_slices(config::Section& root, Recipe& recipe, bool describing) {
  recipe.is_sliced = !describing;
  for (auto& slice : tables(root, "slices", of_slices)) {
    Recipe::Slice read;
    if (describing || slice.has("base_model"))
      read.base_model = slice.path(
          "base_model",
          {"The folder of θ0 of this slice: its layers are those of the source that is this folder and, "
           "where none is, the sources' own, if these are all the same",
           {.fallback = "the recipe's"}},
          {});
    const bool says_weight = describing || !(root.has("parameters.weight") || slice.has("parameters.weight"));
    for (auto& source : tables(slice, "sources", of_sources)) {
      read.sources.push_back(read_source(source, recipe, true, says_weight, describing));
      if (read.sources.back().layers.count != read.sources.front().layers.count)
        source.refuse("layer_range", "has another number of layers than the slice's first; expected as many");
    }
    std::map<std::string, config::Range> ranges = {{"weight", weight_range},
                                                   {"lambda", weight_range},
                                                   {"t", {0, 1}},
                                                   {"select_topk", config::some_share},
                                                   {"r", {0, 1e3}},
                                                   {"max_ratio", {0, 1e3}}};
    for (const auto& each : of_model) ranges[each.key] = each.range;
    for (const auto& [key, range] : ranges) {
      if (!slice.has("parameters." + key)) continue;
      auto parameters = slice.parts({"parameters"}, "parameters", of_slices).at("parameters");
      parameters.real(key, "This slice's own value", 1, range);
      read.shared = parameters.settings();
    }
    recipe.slices.push_back(std::move(read));
  }
}

/// One of the words, or else a folder: empty where it is a word.
fs::path folder_or(config::Section& section, const std::string& key, const config::Meaning& meaning,
                   std::string& word, const std::vector<std::string>& words) {
  word = section.word(key, meaning, words.front());
  if (std::find(words.begin(), words.end(), word) != words.end()) return {};
  return section.required_path(key, meaning);
}

Recipe::Tokenizer read_tokenizer(config::Section& section, bool describing) {
  Recipe::Tokenizer read;
  std::string word;
  read.where = section.where("source");
  read.model =
      folder_or(section, "source",
                "Whose tokens: base, union (the base's, and behind them those that other models have, as "
                "added tokens), or the folder of a model; the tokenizer's files come from there",
                word, {"union", "base"});
  read.is_union = word == "union";
  read.multiple_of = section.integer(
      "pad_to_multiple_of", "Rows are added up to a multiple of this, each the mean of the model's others", 1,
      {1, 1e6});
  if (!describing && !section.has("tokens")) return read;
  for (auto& token : tables(section, "tokens", of_tokens)) {
    Recipe::Tokenizer::Row row;
    row.token = token.required_word("token", "The token, as the tokenizer has it");
    row.where = token.where("source");
    if (!describing && !token.has("source"))
      token.refuse("source", "missing; expected zero, or the folder of the model whose row it is");
    row.model = folder_or(token, "source",
                          {"Where its row comes from, in models that lack it: zero, or the folder of a model",
                           {.fallback = "required"}},
                          word, {"zero"});
    row.source_token =
        token.word("source_token", {"The token of that model whose row it is", {.fallback = "the same"}}, "");
    row.source_id = token.integer(
        "source_id", {"The number of that row, in the place of source_token", {.fallback = "none"}}, -1,
        {-1, 1e9});
    row.force = token.flag("force", "Whether models that have the token get this row as well", false);
    read.rows.push_back(std::move(row));
  }
  return read;
}

/// The checkpoints of a run as models, from the latest on: the first one is the base of a recipe that names
/// none.
void list_checkpoints(const config::Section& root, config::Section& section, Recipe& recipe) {
  for (const auto* key : {"models", "slices", "parameters.weight"})
    if (root.has(key))
      root.refuse(key, "stands beside [checkpoints], which says as much; expected one of them");
  if (recipe.method_name != "linear")
    root.refuse("merge_method", "is " + config::canonical(recipe.method_name) +
                                    ", and [checkpoints] are averaged; expected \"linear\", or models");
  recipe.where = section.where("run");
  Recipe::Slice all;
  for (auto& [folder, weight] : read_checkpoints(section, /*describing=*/false, recipe.notes)) {
    all.sources.push_back(
        {recipe.models.size(), {}, {{"weight", {{{"", {weight}}}, recipe.where}}}, recipe.where});
    recipe.models.push_back(folder);
  }
  recipe.slices.push_back(std::move(all));
}

Recipe read(config::Config& config, bool describing, bool needs_out) {
  Recipe recipe;
  auto root = config.section("", of_root);
  if (root.has("merge_method") && !root.is_list("merge_method")) {
    const auto asked = root.required_word("merge_method", of_method);
    if (const auto& all = names();
        std::find(all.begin(), all.end(), asked) != all.end() && entry(asked).takes_data())
      root.refuse("merge_method", "is " + config::canonical(asked) +
                                      ", which needs data; use [merging] in an experiment (taugrid run)");
  }
  auto methods = names_of_vectors();
  methods.emplace_back(passthrough);
  recipe.method_name = root.required_word("merge_method", of_method, methods);
  recipe.base = root.path(
      "base_model",
      "The folder of θ0, from which the models were fine-tuned, and of which the result has the "
      "configuration; methods on the models themselves do without: linear, slerp, karcher, passthrough, "
      "and nuslerp and multislerp with of = \"models\"",
      {});
  constexpr config::Meaning of_out =
      "The folder to be written; there must be none as yet; what the command line says goes before it";
  recipe.out = needs_out ? root.required_path("out", of_out) : root.path("out", of_out, {});
  recipe.dtype =
      root.word("dtype",
                "The type that floating-point tensors are written in; base: each in the base's. They are "
                "merged in float32, whatever the models' types",
                "base", {"base", "float32", "float16", "bfloat16"});
  const auto written = root.word("out_dtype", "As dtype, which it goes before (mergekit computes in dtype)",
                                 "dtype", {"dtype", "base", "float32", "float16", "bfloat16"});
  if (written != "dtype") recipe.dtype = written;
  if (!recipe.out.empty() && !recipe.out.has_filename())
    recipe.out = recipe.out.parent_path();  // it ended in a slash
  if (auto tokenizer = config.optional_section("tokenizer", of_tokenizer))
    recipe.tokenizer = read_tokenizer(*tokenizer, describing);
  recipe.chat_template =
      root.word("chat_template",
                {"The chat template of the result: its text in Jinja, or auto: that of most models",
                 {.fallback = "the tokenizer's"}},
                "");
  if (const auto& text = recipe.chat_template;
      !text.empty() && text != "auto" && text.find('{') == std::string::npos)
    root.refuse("chat_template", "is " + store::quoted(text) +
                                     ", and no template; expected auto, or the text of a template in Jinja");
  if (auto adapter = config.optional_section("adapter", of_adapter)) {
    const auto rank = adapter->integer("rank",
                                       {"The rank of its matrices, at most, each the nearest to the merged "
                                        "one; their relative errors stand in "
                                        "merge.toml",
                                        {.fallback = "no limit"}},
                                       0, {0, 1e6});
    const auto share =
        adapter->real("share", "The least rank that keeps this share of the merged matrix' squared norm", 1,
                      config::some_share);
    adapter->require_one_number("share");
    recipe.adapter = {rank, share, root.where("adapter")};
  }
  if (describing || !recipe.adapter)
    recipe.max_shard_size = root.real(
        "max_shard_size",
        "GB (10⁹ bytes) of each file of a whole model's weights, at most, a tensor that is larger aside: the "
        "base's own parts where none is larger, and else parts in the order of their names, with an index, "
        "as Hugging Face writes them",
        5, {1e-6, 1e6});
  root.require_one_number("max_shard_size");
  if (auto checkpoints = config.optional_section("checkpoints", of_checkpoints)) {
    if (!describing) {
      list_checkpoints(root, *checkpoints, recipe);
      return recipe;
    }
    static_cast<void>(read_checkpoints(*checkpoints, describing, recipe.notes));
  }
  recipe.where = root.where("models");
  if (describing || !root.has("slices")) {
    Recipe::Slice all;
    for (auto& model : tables(root, "models", of_models))
      all.sources.push_back(
          read_source(model, recipe, false, describing || !root.has("parameters.weight"), describing));
    recipe.slices.push_back(std::move(all));
  } else if (root.has("models")) {
    root.refuse("slices", "stands beside models; expected one of them");
  }
  if (describing || root.has("slices")) {
    recipe.where = root.where("slices");
    read_slices(root, recipe, describing);
  }
  return recipe;
}

/// What a model is not in: θ0 itself, as a source of a slice of a method that needs it. Where it is none of
/// them, as mergekit asks for, its layers are those of all the others, as they are of whole models.
void take_base_out(Recipe& recipe) {
  for (auto& slice : recipe.slices) {
    const auto& first = slice.sources.front();
    const auto is_base = [&](const Recipe::Source& source) {
      return same_folder(recipe.models[source.model], slice.base_model);
    };
    const auto base = std::find_if(slice.sources.begin(), slice.sources.end(), is_base);
    if (base == slice.sources.end()) {
      const bool are_equal = std::all_of(
          slice.sources.begin(), slice.sources.end(),
          [&](const Recipe::Source& source) { return source.layers.begin == first.layers.begin; });
      if (!are_equal)
        throw InputError(first.where + ": " + recipe.method_name +
                         " needs the layers of base_model, and the sources' are several; expected it among "
                         "the sources of the slice");
      slice.base = first.layers;
      continue;
    }
    if (slice.sources.size() == 1)
      throw InputError(base->where + ": is of base_model alone; expected another model beside it");
    slice.base = base->layers;
    slice.sources.erase(base);
  }
}

/// As mergekit has it: t counts from base_model, where that is one of the two.
void put_base_first(Recipe& recipe) {
  for (auto& slice : recipe.slices)
    if (slice.sources.size() == 2 && !slice.base_model.empty() &&
        same_folder(recipe.models[slice.sources[1].model], slice.base_model))
      std::swap(slice.sources[0], slice.sources[1]);
}

/// Throws InputError where the merged model is none that an adapter can be of.
void require_adapter(const Recipe& recipe, config::Section& root) {
  const auto refuse = [&](const std::string& problem) {
    root.refuse("adapter", problem + "; expected a whole model as out");
  };
  if (recipe.base.empty()) root.refuse("base_model", "missing; expected the model that the adapter is of");
  if (recipe.is_sliced) refuse("is of the base's layers, and slices stack others");
  if (recipe.tokenizer || !recipe.chat_template.empty())
    refuse("has the base's vocabulary and chat template, and the recipe asks for others");
  if (recipe.adds_models)
    refuse("is the difference from base_model, and " + recipe.method_name + " makes none");
}

Recipe read_config(config::Config config, bool needs_out) {
  config.let_numbers_differ();
  auto recipe = read(config, /*describing=*/false, needs_out);
  auto root = config.root();
  auto parameters = config.section("parameters", "The method's own");
  const bool is_passthrough = recipe.method_name == passthrough;
  recipe.method = make(is_passthrough ? "linear" : recipe.method_name, parameters);
  read_shared(parameters, recipe.method_name, /*describing=*/false);
  recipe.adds_models =
      is_passthrough || (recipe.method_name == "linear" && parameters.values().at("normalize") == "false");
  if (recipe.adds_models && recipe.method->needs_start())
    root.refuse("parameters.calibration", "is of task vectors, and " + recipe.method_name +
                                              " adds the models' own numbers here; expected none");
  if (recipe.adds_models) recipe.method = recipe.method->with("normalize", {0});
  recipe.shared = parameters.settings();
  for (const auto values = parameters.values(); const auto& parameter : of_model)
    if (values.contains(parameter.key) && !recipe.shared.contains(parameter.key))
      recipe.defaults[parameter.key] = std::stod(values.at(parameter.key));
  config.finish();
  recipe.names_base = !recipe.base.empty();
  bool has_base = true;
  for (auto& slice : recipe.slices) {
    if (slice.base_model.empty()) slice.base_model = recipe.base;
    has_base = has_base && !slice.base_model.empty();
  }
  put_base_first(recipe);
  if (recipe.adapter) require_adapter(recipe, root);
  if (recipe.base.empty()) recipe.base = recipe.slices.front().base_model;
  if (!has_base) {
    if (recipe.method->needs_start() || !recipe.is_of_models())
      root.refuse("base_model",
                  fmt::format("missing; expected the folder of θ0, which {}{} needs", recipe.method_name,
                              recipe.method->needs_start() ? "" : " with lambda"));
    for (const auto& model : recipe.models)
      if (Adapter::is_in(model))
        root.refuse("base_model",
                    "missing; expected the model that the adapter " + model.string() + " is of");
    if (recipe.base.empty()) recipe.base = recipe.models[recipe.slices.front().sources.front().model];
    for (auto& slice : recipe.slices)
      if (slice.base_model.empty()) slice.base_model = recipe.base;
  }
  if ((recipe.is_sliced || recipe.adds_models) && !recipe.method->needs_start() && !recipe.is_of_models())
    root.refuse("parameters.lambda",
                "is not 1, and " + recipe.method_name + " takes the models' own numbers here; expected none");
  if (recipe.is_sliced && recipe.method->needs_start()) take_base_out(recipe);
  for (const auto& slice : recipe.slices) {
    if (is_passthrough && slice.sources.size() != 1)
      throw InputError(fmt::format("{}: passthrough takes one model, or one a slice, and there are {}",
                                   slice.sources[1].where, slice.sources.size()));
    recipe.method->check(recipe.where, std::vector<double>(slice.sources.size(), 1.0));
    for (const auto& source : slice.sources) {
      if (!recipe.method->needs_start() || !same_folder(recipe.models[source.model], slice.base_model))
        continue;
      throw InputError(
          source.where +
          ": is the base_model, whose vector is zero and would count as a model's; leave it out");
    }
  }
  recipe.resolved = config.resolved();
  return recipe;
}

}  // namespace

bool same_folder(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || fs::weakly_canonical(a, error) == fs::weakly_canonical(b, error);
}

bool Recipe::is_of_models() const {
  if (method->needs_start()) return false;
  const auto is_one = [](const Settings& settings) {
    const auto lambda = settings.find("lambda");
    if (lambda == settings.end()) return true;
    const auto& cases = lambda->second.cases;
    return std::all_of(cases.begin(), cases.end(), [](const auto& each) {
      return std::all_of(each.values.begin(), each.values.end(), [](double value) { return value == 1; });
    });
  };
  return is_one(shared) &&
         std::all_of(slices.begin(), slices.end(), [&](const Slice& slice) { return is_one(slice.shared); });
}

std::optional<at::ScalarType> Recipe::type() const {
  if (dtype == "float32") return at::kFloat;
  if (dtype == "float16") return at::kHalf;
  if (dtype == "bfloat16") return at::kBFloat16;
  return std::nullopt;
}

Recipe Recipe::extraction(const fs::path& base, const fs::path& model, const fs::path& out, std::int64_t rank,
                          double share, const std::string& dtype) {
  if (same_folder(base, model))
    throw InputError(model.string() + ": is the base itself; expected a model that was fine-tuned from it");
  const auto absolute = [](const fs::path& path) {
    return config::canonical(fs::absolute(path).lexically_normal().string());
  };
  const auto text = fmt::format(
      "merge_method = \"task_arithmetic\"\nbase_model = {}\nout = {}\ndtype = {}\n[[models]]\nmodel = {}\n"
      "[adapter]\nrank = {}\nshare = {}\n",
      absolute(base), absolute(out), config::canonical(dtype), absolute(model), rank,
      config::canonical(share));
  auto recipe = read_config(config::Config::translated("taugrid extract", text, {}), /*needs_out=*/true);
  recipe.where = model.string();  // the user has written no recipe
  return recipe;
}

Recipe Recipe::read(const fs::path& path, const fs::path& out, bool needs_out) {
  std::vector<std::string> overrides;
  if (!out.empty())
    overrides.push_back("out=" + config::canonical(fs::absolute(out).lexically_normal().string()));
  std::vector<std::string> notes;
  auto recipe = read_config(
      is_mergekit(path) ? mergekit_recipe(path, overrides, notes) : config::Config::load(path, overrides),
      needs_out);
  recipe.notes.insert(recipe.notes.end(), notes.begin(), notes.end());
  return recipe;
}

const config::Meaning& meaning_of(const std::string& method) {
  return method == passthrough ? of_passthrough : entry(method).meaning;
}

std::vector<config::SectionEntry> recipe_reference() {
  auto config = config::Config::describing();
  static_cast<void>(read(config, /*describing=*/true, /*needs_out=*/true));
  auto sections = config.reference();
  for (auto& section : sections) {  // an array in an array, or in a table
    const auto joint = section.name.find(".[");
    if (joint == std::string::npos) continue;
    section.name.replace(joint, 2, ".");
    if (section.name.front() == '[') {
      section.name.erase(joint - 1, 1);
    } else {
      section.name.insert(0, "[");
    }
    section.again.clear();
  }
  for (const auto& name : names_of_vectors()) {
    auto described = config::Config::describing();
    auto parameters = described.section("parameters", entry(name).meaning);
    static_cast<void>(make(name, parameters));
    read_shared(parameters, name, /*describing=*/true);
    sections.push_back(described.reference().front());
    sections.back().owner = name;
  }
  auto described = config::Config::describing();
  auto parameters = described.section("parameters", of_passthrough);
  read_shared(parameters, passthrough, /*describing=*/true);
  sections.push_back(described.reference().front());
  sections.back().owner = passthrough;
  return sections;
}

}  // namespace taugrid::merging
