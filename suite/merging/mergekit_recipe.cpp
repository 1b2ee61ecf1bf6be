// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/mergekit_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "suite/config/canonical.hpp"
#include "suite/error.hpp"
#include "suite/merging/adapter.hpp"
#include "suite/merging/table.hpp"
#include "suite/store/input_yaml.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using config::canonical;
using config::join;

using store::Yaml;
using Kind = Yaml::Kind;

/// The parameters of a method of mergekit's that taugrid has.
struct Words {
  std::vector<std::string> of_models;  ///< may be said of each model
  std::vector<std::string> of_all;     ///< are said once
};

const std::map<std::string, Words> methods_read = {
    {"linear", {{"weight"}, {"normalize"}}},
    {"slerp", {{}, {"t"}}},
    {"task_arithmetic", {{"weight"}, {"normalize", "lambda", "rescale"}}},
    {"ties", {{"weight", "density"}, {"normalize", "lambda", "rescale"}}},
    {"dare_linear", {{"weight", "density"}, {"normalize", "lambda", "rescale"}}},
    {"dare_ties", {{"weight", "density"}, {"normalize", "lambda", "rescale"}}},
    {"breadcrumbs", {{"weight", "density", "gamma"}, {"normalize", "lambda", "rescale"}}},
    {"breadcrumbs_ties", {{"weight", "density", "gamma"}, {"normalize", "lambda", "rescale"}}},
    {"della_linear", {{"weight", "density", "epsilon"}, {"normalize", "lambda", "rescale"}}},
    {"della", {{"weight", "density", "epsilon"}, {"normalize", "lambda", "rescale"}}},
    {"model_stock", {{}, {"filter_wise"}}},
    {"nuslerp", {{"weight"}, {"nuslerp_flatten", "nuslerp_row_wise"}}},
    {"multislerp", {{"weight"}, {"normalize_weights", "eps"}}},
    {"karcher", {{}, {"max_iter", "tol"}}},
    {"sce", {{}, {"select_topk"}}},
    {"nearswap", {{}, {"t"}}},
    {"ram", {{}, {"epsilon"}}},
    {"ramplus_tl", {{}, {"epsilon", "r", "alpha"}}},
    {"arcee_fusion", {{}, {}}},
    {"passthrough", {{"scale"}, {}}},
};
/// Methods that merge models, of which base_model may be one. To the others it is θ0, whose vector is zero.
const std::set<std::string> methods_on_models = {"linear", "slerp", "karcher", "passthrough"};
/// Methods that rescale what they keep.
const std::set<std::string> methods_that_rescale = {"dare_linear", "dare_ties", "della_linear", "della"};
/// What mergekit takes where nothing is said, of a recipe or of a tensor that no filter is for.
const std::map<std::string, std::string> mergekits_defaults = {
    {"density", "1.0"}, {"epsilon", "0.15"}, {"gamma", "0.01"},      {"lambda", "1.0"},
    {"r", "0.1"},       {"alpha", "0.2"},    {"select_topk", "1.0"}, {"epsilon of ram", "1e-5"}};

/// A number of YAML, as mergekit takes it.
std::optional<double> number(const Yaml& node) {
  if (node.kind != Kind::scalar) return std::nullopt;
  auto text = node.text;
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.erase(0, 1);
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<bool> flag(const Yaml& node) {
  if (node.kind != Kind::scalar || node.quoted) return std::nullopt;
  auto text = node.text;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; });
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  return std::nullopt;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

class Translation {
 public:
  Translation(fs::path path, std::vector<std::string>& notes)
      : path_(std::move(path)),
        folder_(fs::absolute(path_).parent_path()),
        recipe_(store::input_yaml(path_, "mergekit's recipe: merge_method, and models or slices")),
        notes_(notes) {}

  config::Config translated(const std::vector<std::string>& overrides) {
    if (recipe_.kind != Kind::map) refuse(recipe_, "", "is " + recipe_.kind_name(), "a map: merge_method, …");
    require_known(recipe_, "",
                  {"merge_method", "base_model", "models", "slices", "parameters", "dtype", "out_dtype",
                   "tokenizer_source", "tokenizer", "chat_template", "out", "modules"});
    if (const auto* modules = said(recipe_, "modules"); modules != nullptr)
      refuse(*modules, "modules", "is not read", "models or slices");
    read_method();
    if (const auto* base = said(recipe_, "base_model"); base != nullptr) {
      base_ = model(*base, "base_model");
      put("", "base_model", *base, canonical(base_.string()));
    }
    for (const char* key : {"dtype", "out_dtype", "out"})
      if (const auto* word = said(recipe_, key); word != nullptr) put("", key, *word, text(*word, key));
    if (const auto* chat = said(recipe_, "chat_template"); chat != nullptr)
      put("", "chat_template", *chat, text(*chat, "chat_template"));
    read_tokenizer();
    const auto* models = said(recipe_, "models");
    const auto* slices = said(recipe_, "slices");
    if ((models == nullptr) == (slices == nullptr))
      refuse(slices != nullptr ? *slices : recipe_, "models",
             slices != nullptr ? "stands beside slices" : "is missing, and so is slices", "one of them");
    has_base_ = !base_.empty();
    models != nullptr ? read_models(*models) : read_slices(*slices);
    read_parameters(said(recipe_, "parameters"), "parameters", words_.of_all, /*of_all=*/true);
    say_defaults();
    std::string toml;
    for (const auto& line : root_) toml += line + "\n";
    for (const auto& [section, keys] : tables_) {
      toml += section + "\n";
      for (const auto& key : keys) toml += key + "\n";
    }
    return config::Config::translated(path_, toml, lines_, overrides);
  }

 private:
  [[noreturn]] void refuse(const Yaml& node, const std::string& name, const std::string& problem,
                           const std::string& expected) const {
    throw InputError(path_.string() + ":" + std::to_string(std::max<std::size_t>(node.line, 1)) + ": " +
                     (name.empty() ? "" : name + ": ") + problem + "; expected " + expected);
  }

  /// What the map says of the key; null where it says nothing, or null.
  static const Yaml* said(const Yaml& map, const std::string& key) {
    const auto* value = map.find(key);
    return value == nullptr || value->kind == Kind::null ? nullptr : value;
  }

  void require_known(const Yaml& map, const std::string& name, const std::vector<std::string>& known) const {
    for (std::size_t i = 0; i < map.keys.size(); ++i) {
      const auto& key = map.keys[i];
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const auto close = config::nearest(key, known);
      refuse(map.values[i], join(name, store::quoted(key)), "unknown key",
             close.empty() ? (known.empty() ? "none here" : listed(known)) : "perhaps " + close);
    }
  }

  /// A line of the recipe in TOML, and where the YAML has it.
  void put(const std::string& section, const std::string& key, const Yaml& at, const std::string& value) {
    lines_[join(section, key)] = at.line;
    (section.empty() ? root_ : tables_.back().second).push_back(key + " = " + value);
  }
  void begin(const std::string& section, const std::string& heading, const Yaml& at) {
    lines_[section] = at.line;
    tables_.emplace_back(heading, std::vector<std::string>{});
  }

  std::string text(const Yaml& node, const std::string& name) const {
    if (node.kind != Kind::scalar) refuse(node, name, "is " + node.kind_name(), "a text");
    return canonical(node.text);
  }

  void read_method() {
    const auto* method = said(recipe_, "merge_method");
    if (method == nullptr || method->kind != Kind::scalar)
      refuse(method != nullptr ? *method : recipe_, "merge_method", "is missing", "the name of a method");
    method_ = method->text;
    std::vector<std::string> known;
    for (const auto& entry : methods_read) known.push_back(entry.first);
    const auto words = methods_read.find(method_);
    if (words == methods_read.end()) {
      const bool is_own = std::find(names().begin(), names().end(), method_) != names().end();
      const auto close = config::nearest(method_, known);
      refuse(*method, "merge_method",
             "is " + store::quoted(method_) +
                 (is_own ? ", which mergekit has not: write the recipe in TOML" : ", which nobody has"),
             close.empty() || is_own ? "one of " + listed(known) : "perhaps " + close);
    }
    words_ = words->second;
    put("", "merge_method", *method, canonical(method_));
  }

  /// Whether it is MODEL+ADAPTER, and no folder of this name.
  bool is_adapted(const Yaml& node) const {
    std::error_code error;
    return node.kind == Kind::scalar && std::count(node.text.begin(), node.text.end(), '+') == 1 &&
           node.text.front() != '+' && node.text.back() != '+' &&
           !fs::is_directory(folder_ / node.text, error);
  }

  /// A model's folder or, of MODEL+ADAPTER, the adapter's: its MODEL must be θ0.
  fs::path source(const Yaml& node, const std::string& name) {
    if (!is_adapted(node)) return model(node, name);
    const auto plus = node.text.find('+');
    const auto said = "is " + store::quoted(node.text) + ", ";
    auto part = node;
    part.text = node.text.substr(0, plus);
    const auto start = model(part, name);
    part.text = node.text.substr(plus + 1);
    const auto adapter = model(part, name);
    if (!Adapter::is_in(adapter))
      refuse(node, name, said + "and " + adapter.string() + " holds no adapter", "adapter_config.json in it");
    if (method_ != "linear" && methods_on_models.contains(method_))
      refuse(node, name, said + "a model and an adapter, and " + method_ + " takes the models' own numbers",
             "the folder of a whole model (peft's merge_and_unload makes one)");
    if (base_.empty() && method_ != "linear")
      refuse(node, name, said + "a model and an adapter, and there is no base_model",
             "base_model: " + node.text.substr(0, plus));
    auto& begun = base_.empty() ? start_ : base_;
    std::error_code error;
    if (begun.empty()) {  // a mean of models, which is one of vectors, too
      begun = start;
      put("", "base_model", node, canonical(start.string()));
    } else if (!fs::equivalent(begun, start, error)) {
      refuse(node, name, said + "and the others are of " + begun.string(), "one base_model");
    }
    return adapter;
  }

  /// A folder; what only looks like one is said to be a name on the hub.
  fs::path model(const Yaml& node, const std::string& name) const {
    if (node.kind != Kind::scalar || node.text.empty())
      refuse(node, name, "is " + node.kind_name(), "a folder");
    const auto folder = (folder_ / node.text).lexically_normal();
    std::error_code error;
    if (fs::is_directory(folder, error)) return folder;
    const auto& said = node.text;
    if (is_adapted(node))
      refuse(node, name, "is " + store::quoted(said) + ", a model and an adapter",
             "a whole model here; adapters stand among the models");
    const auto slashes = std::count(said.begin(), said.end(), '/');
    if (slashes == 1 && said.front() != '/' && said.front() != '.' && said.back() != '/')
      refuse(node, name, "is " + store::quoted(said) + ", and there is no such folder in " + folder_.string(),
             "a folder: what is on the hub is to be downloaded first (hf download " + said + " --local-dir " +
                 said + ")");
    refuse(node, name, "is " + store::quoted(said) + ", and there is no folder " + folder.string(),
           "a model's folder");
  }

  bool is_base(const fs::path& folder) const {
    std::error_code error;
    return !base_.empty() && fs::equivalent(folder, base_, error);
  }

  /// "base", "union" or a model's folder, in TOML.
  std::string vocabulary(const Yaml& source, const std::string& name) const {
    if (source.kind == Kind::scalar && (source.text == "base" || source.text == "union"))
      return canonical(source.text);
    return canonical(model(source, name).string());
  }

  void read_tokenizer() {
    const auto* source = said(recipe_, "tokenizer_source");
    const auto* tokenizer = said(recipe_, "tokenizer");
    if (source != nullptr && tokenizer != nullptr)
      refuse(*source, "tokenizer_source", "stands beside tokenizer", "one of them");
    if (source != nullptr) {
      begin("tokenizer", "[tokenizer]", *source);
      put("tokenizer", "source", *source, vocabulary(*source, "tokenizer_source"));
    }
    if (tokenizer == nullptr) return;
    if (tokenizer->kind != Kind::map)
      refuse(*tokenizer, "tokenizer", "is " + tokenizer->kind_name(), "a map");
    require_known(*tokenizer, "tokenizer", {"source", "tokens", "pad_to_multiple_of"});
    begin("tokenizer", "[tokenizer]", *tokenizer);
    if (const auto* its = said(*tokenizer, "source"); its != nullptr)
      put("tokenizer", "source", *its, vocabulary(*its, "tokenizer.source"));
    if (const auto* multiple = said(*tokenizer, "pad_to_multiple_of"); multiple != nullptr)
      put("tokenizer", "pad_to_multiple_of", *multiple,
          integer(*multiple, "tokenizer.pad_to_multiple_of", {1, 1e6}));
    const auto* tokens = said(*tokenizer, "tokens");
    if (tokens == nullptr) return;
    if (tokens->kind != Kind::map)
      refuse(*tokens, "tokenizer.tokens", "is " + tokens->kind_name(),
             "a map from tokens to source and force");
    for (std::size_t i = 0; i < tokens->keys.size(); ++i)
      read_token(tokens->keys[i], tokens->values[i], join("tokenizer.tokens", config::entry_step(i)));
  }

  void read_token(const std::string& token, const Yaml& map, const std::string& name) {
    if (map.kind != Kind::map) refuse(map, name, "is " + map.kind_name(), "a map: source, force");
    require_known(map, name, {"source", "force"});
    begin(name, "[[tokenizer.tokens]]", map);
    put(name, "token", map, canonical(token));
    if (const auto* force = said(map, "force"); force != nullptr)
      put(name, "force", *force, canonical(read_flag(*force, join(name, "force"))));
    const auto full_key = join(name, "source");
    const auto* source = said(map, "source");
    if (source == nullptr)
      refuse(map, full_key, "is missing", "a model, or a map: kind, model, token or token_id");
    if (source->kind != Kind::map)
      return put(name, "source", *source, canonical(model(*source, full_key).string()));
    require_known(*source, full_key, {"kind", "model", "token", "token_id"});
    const auto* kind = said(*source, "kind");
    const auto* its = said(*source, "model");
    const auto* other = said(*source, "token");
    const auto* id = said(*source, "token_id");
    if (kind != nullptr && kind->text == "zero")
      return put(name, "source", *source, canonical(std::string("zero")));
    if (kind == nullptr || kind->text != "model_token" || its == nullptr ||
        (other == nullptr) == (id == nullptr))
      refuse(*source, full_key, "is no row",
             "kind: zero, or kind: model_token with a model and either token or token_id");
    put(name, "source", *its, canonical(model(*its, join(full_key, "model")).string()));
    if (other != nullptr) put(name, "source_token", *other, text(*other, join(full_key, "token")));
    if (id != nullptr) put(name, "source_id", *id, integer(*id, join(full_key, "token_id"), {0, 1e9}));
  }

  void require_list(const Yaml& node, const std::string& name) const {
    if (node.kind != Kind::list || node.values.empty())
      refuse(node, name, "is " + (node.kind == Kind::list ? "an empty list" : node.kind_name()),
             "a list of maps");
  }

  /// The entries of models, or of a slice's sources. θ0 among them is no model of methods on vectors, whose
  /// vector is zero; a slice says which of its layers are meant.
  void read_sources(const Yaml& list, const std::string& name, const std::string& heading, bool in_slice) {
    require_list(list, name);
    const bool on_vectors = !methods_on_models.contains(method_);
    std::set<fs::path> seen;
    std::size_t count = 0;
    bool has_base = false;
    for (const auto& entry : list.values) {
      const auto section = join(name, config::entry_step(count));
      if (entry.kind != Kind::map)
        refuse(entry, section, "is " + entry.kind_name(), "a map: model, parameters");
      require_known(entry, section,
                    in_slice ? std::vector<std::string>{"model", "layer_range", "parameters"}
                             : std::vector<std::string>{"model", "parameters"});
      const auto* named = said(entry, "model");
      if (named == nullptr) refuse(entry, join(section, "model"), "is missing", "a folder");
      const auto folder = source(*named, join(section, "model"));
      std::error_code error;
      if (!seen.insert(fs::weakly_canonical(folder, error)).second)
        refuse(*named, join(section, "model"), "is " + store::quoted(named->text) + " a second time",
               "each model once");
      has_base = has_base || is_base(folder);
      if (is_base(folder) && on_vectors && !in_slice) {
        note("base_model is among the models: its vector is zero, and it is left out");
        continue;
      }
      begin(section, heading, entry);
      put(section, "model", *named, canonical(folder.string()));
      if (in_slice) put_range(entry, section);
      const bool is_start = is_base(folder) && on_vectors;
      read_parameters(said(entry, "parameters"), section,
                      is_start ? std::vector<std::string>{} : words_.of_models,
                      /*of_all=*/false);
      ++count;
    }
    if (in_slice && on_vectors && !has_base && !base_.empty())
      note("base_model is none of a slice's sources, which mergekit refuses: its layers are as theirs");
    if (count == 0) refuse(list, name, "has base_model alone", "a model beside it");
    if (!has_base && !base_.empty() && method_ == "slerp") {
      if (in_slice) refuse(list, name, "lacks base_model, from which t counts", "it among the sources");
      begin(join(name, config::entry_step(count)), heading, list);
      put(join(name, config::entry_step(count)), "model", list, canonical(base_.string()));
    }
    if (method_ == "slerp" && base_.empty())
      refuse(list, "base_model", "is missing", "one of the two models, from which t counts");
    if (!has_base && !base_.empty() && (method_ == "linear" || method_ == "karcher") && !in_slice)
      refuse(*said(recipe_, "base_model"), "base_model",
             "is none of the models, and mergekit would count it as one",
             "it among the models with its weight, or no base_model");
  }

  void put_range(const Yaml& entry, const std::string& section) {
    const auto* range = said(entry, "layer_range");
    const std::string name = join(section, "layer_range"),
                      expected = "[a, b]: the layers from a on and before b";
    if (range == nullptr) refuse(entry, name, "is missing", expected);
    if (range->kind != Kind::list || range->values.size() != 2)
      refuse(*range, name, "is " + range->kind_name(), expected);
    std::string toml;
    for (const auto& end : range->values) {
      const auto value = number(end);
      if (!value || *value != std::floor(*value) || *value < 0)
        refuse(end, name, "holds " + end.kind_name(), expected);
      toml += (toml.empty() ? "" : ", ") + canonical(*value);
    }
    put(section, "layer_range", *range, "[" + toml + "]");
  }

  void read_models(const Yaml& models) { read_sources(models, "models", "[[models]]", false); }

  void read_slices(const Yaml& slices) {
    require_list(slices, "slices");
    for (std::size_t s = 0; s < slices.values.size(); ++s) {
      const auto& slice = slices.values[s];
      const auto section = join("slices", config::entry_step(s));
      if (slice.kind != Kind::map) refuse(slice, section, "is " + slice.kind_name(), "a map: sources");
      require_known(slice, section, {"sources", "parameters", "base_model", "residual_weight"});
      if (const auto* other = said(slice, "residual_weight"); other != nullptr)
        refuse(*other, join(section, "residual_weight"), "is not read", "no such key");
      const auto* sources = said(slice, "sources");
      if (sources == nullptr) refuse(slice, join(section, "sources"), "is missing", "a list of maps");
      begin(section, "[[slices]]", slice);
      const auto whole_base = base_;
      if (const auto* base = said(slice, "base_model"); base != nullptr) {
        base_ = model(*base, join(section, "base_model"));
        put(section, "base_model", *base, canonical(base_.string()));
        ++slices_with_base_;
      }
      if (const auto* parameters = said(slice, "parameters"); parameters != nullptr) {
        begin(join(section, "parameters"), "[slices.parameters]", *parameters);
        auto known = words_.of_models;
        for (const char* key : {"t", "lambda", "select_topk", "epsilon", "r", "alpha"})
          if (std::find(words_.of_all.begin(), words_.of_all.end(), key) != words_.of_all.end())
            known.emplace_back(key);
        read_parameters(parameters, join(section, "parameters"), known, /*of_all=*/false);
        slices_with_t_ += said(*parameters, "t") != nullptr ? 1 : 0;
      }
      read_sources(*sources, join(section, "sources"), "[[slices.sources]]", true);
      base_ = whole_base;
    }
    if (base_.empty() && slices_with_base_ > 0 && slices_with_base_ < slices.values.size())
      refuse(slices, "slices", "have a base_model, some of them", "one in each, or one of the recipe");
    has_base_ = !base_.empty() || slices_with_base_ > 0;
  }

  /// A number, a list over the layers, or cases with filters, in TOML.
  std::string setting(const Yaml& node, const std::string& name, bool in_case = false) const {
    const std::string expected =
        in_case ? "a number, or a list of two or more over the layers"
                : "a number, a list of two or more over the layers, or a list of filter and value";
    if (const auto value = number(node)) return canonical(*value);
    if (node.kind == Kind::map && !in_case) {
      require_known(node, name, {"filter", "value"});
      const auto* value = said(node, "value");
      const auto* filter = said(node, "filter");
      if (value == nullptr) refuse(node, name, "has no value", expected);
      if (filter != nullptr && (filter->kind != Kind::scalar || filter->text.empty()))
        refuse(*filter, name, "has a filter that is " + filter->kind_name(), "a part of tensors' names");
      return "{ " + (filter != nullptr ? "filter = " + canonical(filter->text) + ", " : "") +
             "value = " + setting(*value, name, true) + " }";
    }
    if (node.kind != Kind::list) refuse(node, name, "is " + node.kind_name(), expected);
    const bool has_cases = !node.values.empty() && node.values.front().kind == Kind::map;
    if (node.values.empty() || (node.values.size() < 2 && !has_cases))
      refuse(node, name, "is a list of " + std::to_string(node.values.size()), expected);
    std::string list;
    for (const auto& entry : node.values) {
      if ((entry.kind == Kind::map) != has_cases || entry.kind == Kind::list || (has_cases && in_case))
        refuse(entry, name, "holds " + entry.kind_name(), expected);
      list += (list.empty() ? "" : ", ") + setting(entry, name, in_case);
    }
    return "[" + list + "]";
  }

  std::string integer(const Yaml& node, const std::string& name, config::Range range) const {
    const auto value = number(node);
    if (!value || *value != std::floor(*value) || *value < range.min || *value > range.max)
      refuse(node, name, "is " + node.kind_name(),
             fmt::format("an integer from {} to {}", range.min, range.max));
    return canonical(static_cast<std::int64_t>(*value));
  }

  bool read_flag(const Yaml& node, const std::string& name) const {
    const auto value = flag(node);
    if (!value) refuse(node, name, "is " + node.kind_name(), "true or false");
    return *value;
  }

  /// Parameters of the recipe, which has also what may be said of each model; of a slice, or of a model.
  void read_parameters(const Yaml* map, const std::string& name, std::vector<std::string> known,
                       bool of_all) {
    if (of_all) {
      known.insert(known.end(), words_.of_models.begin(), words_.of_models.end());
      begin(name, "[parameters]", map != nullptr ? *map : recipe_);
    }
    known.emplace_back("int8_mask");
    if (map == nullptr) return;
    if (map->kind != Kind::map) refuse(*map, name, "is " + map->kind_name(), "a map");
    require_known(*map, name, known);
    for (std::size_t i = 0; i < map->keys.size(); ++i) {
      const auto& key = map->keys[i];
      const auto& node = map->values[i];
      if (node.kind == Kind::null) continue;
      const auto full_key = join(name, key);
      if (key == "int8_mask") {
        static_cast<void>(read_flag(node, full_key));
        note("int8_mask is not needed: signs take no memory here");
      } else if (key == "normalize") {
        normalize_ = read_flag(node, full_key);
        normalize_at_ = &node;
      } else if (key == "rescale") {
        rescale_ = read_flag(node, full_key);
        if (*rescale_ && !methods_that_rescale.contains(method_))
          refuse(node, full_key, "is true, and " + method_ + " rescales nothing here",
                 "false, or no such key");
      } else if (key == "filter_wise") {
        if (read_flag(node, full_key))
          refuse(node, full_key, "is true, and angles are those of whole tensors", "false");
      } else if (key == "nuslerp_flatten") {
        flattens_ = read_flag(node, full_key);
      } else if (key == "nuslerp_row_wise") {
        goes_by_rows_ = read_flag(node, full_key);
      } else if (key == "normalize_weights") {
        put(name, key, node, canonical(read_flag(node, full_key)));
      } else if (key == "max_iter") {
        put(name, key, node, integer(node, full_key, {0, 1e6}));
      } else {
        if (of_all) said_of_all_.insert(key);
        auto value = setting(node, full_key);
        if (const auto rest = default_of(key); of_all && rest != mergekits_defaults.end())
          value = with_rest(node, value, rest->second);
        put(name, our_word(key), node, value);
      }
    }
  }

  /// The key that taugrid has for mergekit's.
  static std::string our_word(const std::string& key) {
    return key == "scale" ? "weight" : key == "alpha" ? "max_ratio" : key;
  }

  std::map<std::string, std::string>::const_iterator default_of(const std::string& key) const {
    const bool is_ram = key == "epsilon" && method_.starts_with("ram");
    return mergekits_defaults.find(is_ram ? "epsilon of ram" : key);
  }

  /// Tensors that no filter is for have mergekit's default.
  static std::string with_rest(const Yaml& node, const std::string& value, const std::string& rest) {
    const auto end = ", { value = " + rest + " }]";
    if (node.kind == Kind::map) return "[" + value + end;
    if (node.kind != Kind::list || node.values.front().kind != Kind::map) return value;
    return value.substr(0, value.size() - 1) + end;
  }

  /// mergekit's defaults and choices, where ours are others.
  void say_defaults() {
    const auto& at = normalize_at_ != nullptr ? *normalize_at_ : recipe_;
    const auto say = [&](const std::string& key, const std::string& value) {
      put("parameters", key, at, value);
    };
    const auto is_of = [&](const std::set<std::string>& methods) { return methods.contains(method_); };
    if (is_of({"linear", "task_arithmetic", "dare_linear", "della_linear", "breadcrumbs"}))
      say("normalize", canonical(normalize_.value_or(method_ == "linear")));
    if (is_of({"ties", "dare_ties", "della", "breadcrumbs_ties"})) {
      say("merge", canonical(std::string(normalize_.value_or(is_of({"ties", "della"})) ? "mean" : "sum")));
      say("zero_sign", canonical(std::string("positive")));
    }
    if (is_of({"ties", "dare_ties", "breadcrumbs_ties"})) say("scope", canonical(std::string("tensor")));
    if (is_of({"ties", "dare_ties"})) say("cut", canonical(std::string("exact")));
    if (is_of({"nuslerp", "multislerp"})) say("of", canonical(std::string(has_base_ ? "vectors" : "models")));
    if (method_ == "nuslerp") {
      say("along", canonical(std::string(flattens_ ? "tensor" : goes_by_rows_ ? "first" : "last")));
      if (flattens_ && goes_by_rows_) note("nuslerp_row_wise does nothing where tensors are taken whole");
    }
    const bool rescales = rescale_.value_or(true);
    if (is_of({"dare_linear", "dare_ties"})) {
      say("rescale", canonical(rescales));
      if (rescales) say("rescale_by", canonical(std::string("l1")));
      if (rescales && method_ == "dare_linear") say("scope", canonical(std::string("tensor")));
    }
    if (is_of({"della", "della_linear"}))
      say("rescale_by", canonical(std::string(rescales ? "l1" : "nothing")));
    for (const auto* words : {&words_.of_models, &words_.of_all})
      for (const auto& word : *words)
        if (const auto value = default_of(word);
            value != mergekits_defaults.end() && !said_of_all_.contains(word))
          say(our_word(word), value->second);
    if (method_ == "sce") say("least_energy", "1e-6");
    const auto* slices = said(recipe_, "slices");
    const bool is_in_slices = slices != nullptr && slices_with_t_ == slices->values.size();
    if (method_ == "nearswap" && !said_of_all_.contains("t") && !is_in_slices)
      refuse(at, "parameters.t", "is missing", "how far a number moves");
  }

  void note(const std::string& line) {
    if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(line);
  }

  fs::path path_, folder_, base_;
  fs::path start_;  ///< θ0 of adapters, where there is no base_model
  Yaml recipe_;
  std::vector<std::string>& notes_;
  std::string method_;
  Words words_;
  std::optional<bool> normalize_, rescale_;
  bool flattens_ = true, goes_by_rows_ = false;  ///< of nuslerp
  const Yaml* normalize_at_ = nullptr;
  std::set<std::string> said_of_all_;
  std::size_t slices_with_t_ = 0, slices_with_base_ = 0;
  bool has_base_ = false;  ///< the recipe, or its slices
  std::vector<std::string> root_;
  std::vector<std::pair<std::string, std::vector<std::string>>> tables_;
  std::map<std::string, std::size_t> lines_;
};

}  // namespace

bool is_mergekit(const fs::path& path) { return path.extension() == ".yml" || path.extension() == ".yaml"; }

config::Config mergekit_recipe(const fs::path& path, const std::vector<std::string>& overrides,
                               std::vector<std::string>& notes) {
  return Translation(path, notes).translated(overrides);
}

}  // namespace taugrid::merging
