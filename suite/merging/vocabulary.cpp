// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
// The rule of rows that a model lacks is mergekit's (Goddard et al. 2024, mergekit/tokenizer): of the models
// that have the token, the only one's row, else the base's, else their mean; zero where none has it. Rows
// that are no token's are the mean of the model's rows of tokens.
#include "suite/merging/vocabulary.hpp"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "suite/error.hpp"
#include "suite/merging/base_layers.hpp"
#include "suite/merging/layers.hpp"
#include "suite/merging/side_files.hpp"
#include "suite/store/atomic_file.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t most_rows = std::int64_t{1} << 26;

/// Collects the tokens of a tokenizer.json: those of model.vocab, an object or a list of pairs, and
/// added_tokens. Nothing else of the file is kept.
class TokensOfJson : public nlohmann::json_sax<Json> {
 public:
  std::map<std::string, std::int64_t> vocabulary;
  std::vector<Json> added;
  std::string problem = "is no tokenizer.json; expected JSON, with an integer for each token";

  bool null() override { return value(Json()); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(static_cast<std::int64_t>(number)); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool string(string_t& text) override { return value(text); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    const bool opened = open();
    if (is_entry_of({"added_tokens"}, 2)) return refused(no_objects);
    if (is_entry_of({"added_tokens"}, 3)) added.push_back(Json::object());
    return opened;
  }
  bool key(string_t& name) override {
    if (depth_ <= path_.size()) path_.resize(depth_ - 1);
    path_.push_back(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    const bool opened = open();
    if (path_.size() < depth_) path_.emplace_back();  // elements have no names
    if (is_entry_of({"added_tokens"}, 3)) return refused(no_objects);
    if (is_entry_of({"model", "vocab"}, 4)) ++listed_;
    return opened;
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr std::size_t deepest = 64;
  static constexpr const char* no_objects = "has added_tokens that are no list of objects; expected one";
  bool refused(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool open() { return ++depth_ <= deepest; }
  bool close() {
    if (path_.size() >= depth_) path_.resize(depth_ - 1);
    --depth_;
    return true;
  }
  /// Whether this is `depth` deep, behind these names.
  bool is_entry_of(std::initializer_list<std::string_view> names, std::size_t depth) const {
    return depth_ == depth && path_.size() >= names.size() &&
           std::equal(names.begin(), names.end(), path_.begin());
  }
  bool value(const Json& its) {
    if (is_entry_of({"added_tokens"}, 2)) return refused(no_objects);
    if (is_entry_of({"added_tokens"}, 3) && !added.empty()) added.back()[path_.back()] = its;
    if (is_entry_of({"model", "vocab"}, 4) && its.is_string() &&  // unigram: [[token, score], …]
        !vocabulary.emplace(its.get<std::string>(), listed_ - 1).second)
      return refused("has the token " + store::quoted(its.get<std::string>()) + " twice; expected each once");
    if (!is_entry_of({"model", "vocab"}, 3)) return true;
    if (path_.size() == 3 && its.is_number_integer()) vocabulary[path_[2]] = its.get<std::int64_t>();
    return its.is_number_integer();
  }

  std::vector<std::string> path_;
  std::size_t depth_ = 0;
  std::int64_t listed_ = 0;
};

fs::path canonical_path(const fs::path& folder) {
  std::error_code error;
  return fs::weakly_canonical(folder, error);
}

[[noreturn]] void refuse(const fs::path& place, const std::string& problem) {
  throw InputError(place.string() + ": " + problem);
}

/// Adds tokens of a file beside tokenizer.json, which must not say anything else.
void add_listed(const fs::path& file, const std::string& token, const Json& id, Tokens& tokens) {
  if (!id.is_number_integer())
    refuse(file, store::quoted(token) + " has the id " + store::quoted(id.dump()) + "; expected an integer");
  const auto [known, is_new] = tokens.ids.emplace(token, id.get<std::int64_t>());
  if (!is_new && known->second != id)
    refuse(file, fmt::format("{} has the id {}, and {} in the tokenizer; expected one id",
                             store::quoted(token), id.dump(), known->second));
}

bool is_vocab_size(const std::string& key) {
  return key.find("vocab_size") != std::string::npos && key != "type_vocab_size";
}

void collect_sizes(const Json& json, std::set<std::int64_t>& sizes) {
  for (const auto& [key, value] : json.items()) {
    if (is_vocab_size(key) && value.is_number_integer()) sizes.insert(value.get<std::int64_t>());
    if (value.is_object()) collect_sizes(value, sizes);
  }
}

/// The one number of rows that the configuration's objects say.
std::int64_t vocab_size(const Json& json, const fs::path& file) {
  std::set<std::int64_t> sizes;
  collect_sizes(json, sizes);
  if (sizes.size() != 1 || *sizes.begin() < 1 || *sizes.begin() > most_rows)
    refuse(file, sizes.empty() ? "says no vocab_size; expected the number of the vocabulary's rows"
                               : fmt::format("says vocab_size = {}; expected one vocabulary",
                                             fmt::join(sizes, " and ")));
  return *sizes.begin();
}

bool is_number_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

std::int64_t width_of(const store::MappedTensors::Info& info) {
  return c10::multiply_integers(info.shape.begin() + 1, info.shape.end());
}

at::Tensor row_of(const Weights& weights, const std::string& name, std::int64_t id) {
  const auto width = width_of(weights.tensors().at(name));
  at::Tensor buffer;
  return weights.numbers(name, id * width, width, buffer).to(at::kFloat, false, /*copy=*/true);
}

bool names_token(const std::string& key) {
  return key.ends_with("_token_id") || key.ends_with("_token_index") || key.ends_with("_token_ids");
}

/// Ids of special tokens, as the other configuration has them.
void take_ids(nlohmann::ordered_json& ours, const nlohmann::ordered_json& theirs) {
  std::vector<std::string> gone;
  for (auto& [key, value] : ours.items()) {
    const auto its = theirs.find(key);
    if (names_token(key) && its == theirs.end()) gone.push_back(key);
    if (value.is_object() && its != theirs.end() && its->is_object()) take_ids(value, *its);
  }
  for (const auto& key : gone) ours.erase(key);
  for (const auto& [key, value] : theirs.items())
    if (names_token(key)) ours[key] = value;
}

void set_rows(nlohmann::ordered_json& config, std::int64_t rows) {
  for (auto& [key, value] : config.items()) {
    if (is_vocab_size(key) && value.is_number_integer()) value = rows;
    if (value.is_object()) set_rows(value, rows);
  }
}

Json tokenizer_json(const fs::path& path) {
  const std::string expected = "a tokenizer.json to which tokens are added";
  return store::bounded_json(
      store::input_text(path, expected), {.deepest = 64, .most_values = 8'000'000},
      [&](const std::string& problem) { refuse(path, problem + "; expected " + expected); });
}

/// The folder's chat template, the default of several; empty where it has none.
std::string chat_template_in(const fs::path& folder) {
  if (store::is_there(folder / "chat_template.jinja"))
    return store::input_text(folder / "chat_template.jinja", "a chat template");
  const auto path = folder / "tokenizer_config.json";
  if (!store::is_there(path)) return "";
  const auto said = store::input_json(path, "a tokenizer's configuration").value("chat_template", Json());
  if (said.is_string()) return said.get<std::string>();
  for (const auto& each : said)
    if (each.is_object() && each.value("name", Json()) == "default" &&
        each.value("template", Json()).is_string())
      return each["template"].get<std::string>();
  return "";
}

}  // namespace

std::int64_t Tokens::end() const {
  std::int64_t last = -1;
  for (const auto& entry : ids) last = std::max(last, entry.second);
  return last + 1;
}

std::vector<std::pair<std::int64_t, std::string>> Tokens::by_id() const {
  std::vector<std::pair<std::int64_t, std::string>> ordered;
  for (const auto& [token, id] : ids) ordered.emplace_back(id, token);
  std::sort(ordered.begin(), ordered.end());
  return ordered;
}

Tokens tokens_of(const fs::path& path, const std::string& text) {
  TokensOfJson read;
  if (!Json::sax_parse(text, &read)) refuse(path, read.problem);
  Tokens tokens{std::move(read.vocabulary), {}};
  for (const auto& entry : read.added) {
    const auto content = entry.value("content", Json()), id = entry.value("id", Json());
    if (!content.is_string() || !id.is_number_integer())
      refuse(path, "has an added token without content or id; expected both");
    tokens.ids[content.get<std::string>()] = id.get<std::int64_t>();
    tokens.added[content.get<std::string>()] = entry.dump();
  }
  return tokens;
}

std::optional<Tokens> tokens_in(const fs::path& folder) {
  const auto file = [&](const std::string& name) { return folder / name; };
  Tokens tokens;
  fs::path read = file("tokenizer.json");
  if (store::is_there(read)) {
    tokens = tokens_of(read, store::input_text(read, "a tokenizer.json"));
  } else if (read = file("vocab.json"); store::is_there(read)) {
    const auto vocabulary = store::input_json(read, "a vocabulary: ids by tokens");
    for (const auto& [token, id] : vocabulary.items()) add_listed(read, token, id, tokens);
  } else if (read = file("vocab.txt"); store::is_there(read)) {
    std::istringstream lines(store::input_text(read, "a vocabulary: a token in each line"));
    std::int64_t id = 0;
    for (std::string line; std::getline(lines, line);) tokens.ids[line] = id++;
  } else {
    for (const auto& name : tokenizers_not_read())
      if (store::is_there(file(name)))
        refuse(file(name),
               "is the only tokenizer here, and not read; expected tokenizer.json beside it: "
               "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) makes one");
    return std::nullopt;
  }
  if (const auto further = file("tokenizer_config.json"); store::is_there(further)) {
    const auto json = store::input_json(further, "a tokenizer's configuration");
    const auto decoder = json.value("added_tokens_decoder", Json::object());
    if (!decoder.is_object()) refuse(further, "added_tokens_decoder is no object; expected tokens by ids");
    for (const auto& [id, entry] : decoder.items()) {
      const auto content = entry.is_object() ? entry.value("content", Json()) : Json();
      if (!content.is_string() || !is_number(id) || id.size() > 9)
        refuse(further,
               "added_tokens_decoder has " + store::quoted(id) + "; expected an id, and the token's content");
      add_listed(further, content.get<std::string>(), std::stoll(id), tokens);
      tokens.added.emplace(content.get<std::string>(), entry.dump());
    }
  }
  if (const auto further = file("added_tokens.json"); store::is_there(further)) {
    const auto json = store::input_json(further, "added tokens: ids by tokens");
    for (const auto& [token, id] : json.items()) add_listed(further, token, id, tokens);
  }
  const auto ordered = tokens.by_id();
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    const auto& [id, token] = ordered[i];
    if (id < 0 || id >= most_rows)
      refuse(read, fmt::format("{} has the id {}; expected one from 0 to {}", store::quoted(token), id,
                               most_rows - 1));
    if (i > 0 && ordered[i - 1].first == id)
      refuse(read, fmt::format("{} and {} have the id {}; expected an id for each token",
                               store::quoted(ordered[i - 1].second), store::quoted(token), id));
  }
  if (tokens.ids.empty()) refuse(read, "has no tokens; expected a vocabulary");
  return tokens;
}

Vocabulary::Vocabulary(const Recipe& recipe)
    : choice_(*recipe.tokenizer), base_(recipe.base), source_(recipe.base) {
  read(base_, /*is_base=*/true);
  if (recipe.names_base) first_ = &vocabulary_of(base_);
  for (const auto& model : recipe.models)
    if (!Adapter::is_in(model)) read(model, /*is_base=*/false);
  for (const auto& slice : recipe.slices) read(slice.base_model, /*is_base=*/false);
  if (!choice_.model.empty()) {
    const auto its = own_.find(canonical_path(choice_.model));
    if (its == own_.end())
      throw InputError(choice_.where + ": is none of the models; expected base, union, or the folder of one");
    source_ = choice_.model;
    if (!its->second.has_tokenizer)
      refuse(source_, "has no tokenizer, which the recipe asks for; expected tokenizer.json");
  }
  if (const auto config = source_ / "tokenizer_config.json";
      canonical_path(source_) != canonical_path(base_) && store::is_there(config) &&
      store::input_json(config, "a tokenizer's configuration").contains("auto_map"))
    refuse(config,
           "has an auto_map, and the base's custom code is the result's; expected a tokenizer without code");
  ids_ = vocabulary_of(source_).tokens.ids;
  end_ = vocabulary_of(source_).tokens.end();
  if (choice_.is_union) unite();
  for (const auto& row : choice_.rows) {
    if (!ids_.contains(row.token)) add(row.token, "");
    if (!chosen_.emplace(row.token, &row).second)
      throw InputError(row.where + ": is of " + store::quoted(row.token) +
                       " a second time; expected each token once");
  }
  if (const auto& tokens = vocabulary_of(source_).tokens;
      !further_.empty() &&
      (!store::is_there(source_ / "tokenizer.json") || tokens.end() != std::ssize(tokens.ids)))
    refuse(
        source_,
        fmt::format("{}, and {} tokens are to be added, such as {}; expected tokenizer.json, with ids "
                    "without gaps",
                    store::is_there(source_ / "tokenizer.json")
                        ? fmt::format("has {} tokens with ids up to {}", tokens.ids.size(), tokens.end() - 1)
                        : "has no tokenizer.json",
                    further_.size(), store::quoted(further_.front().first)));
  rows_ = (end_ + choice_.multiple_of - 1) / choice_.multiple_of * choice_.multiple_of;
  require_sources();
  notes_.push_back(fmt::format("the vocabulary has {} tokens in {} rows, and the base {} in {}", ids_.size(),
                               rows_, vocabulary_of(base_).tokens.ids.size(), vocabulary_of(base_).rows));
}

const Vocabulary::Own& Vocabulary::vocabulary_of(const Path& folder) const {
  return own_.at(canonical_path(folder));
}

void Vocabulary::read(const Path& folder, bool is_base) {
  if (own_.contains(canonical_path(folder))) return;
  const auto config = folder / "config.json";
  const auto rows = vocab_size(store::input_json(config, "a model's configuration"), config);
  auto tokens = tokens_in(folder);
  const bool has_tokenizer = tokens.has_value();
  if (!has_tokenizer) {
    if (is_base || rows != vocabulary_of(base_).rows)
      refuse(folder, fmt::format("has no tokenizer{}; expected tokenizer.json",
                                 is_base ? "" : ", and another number of rows than the base"));
    tokens = vocabulary_of(base_).tokens;
    notes_.push_back(folder.string() + ": has no tokenizer; its tokens are taken for the base's");
  }
  if (const auto last = tokens->by_id().back(); last.first >= rows)
    refuse(folder,
           fmt::format("its tokenizer gives {} the id {}, and its embeddings have {} rows (config.json: "
                       "vocab_size); expected a row for each token",
                       store::quoted(last.second), last.first, rows));
  own_[canonical_path(folder)] = {std::move(*tokens), rows, has_tokenizer};
  order_.push_back(folder);
}

void Vocabulary::add(const std::string& token, const std::string& entry) {
  Json said = {
      {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", true}, {"special", false}};
  const auto its = entry.empty() ? Json::object() : Json::parse(entry);
  for (auto& [key, flag] : said.items())
    if (const auto known = its.value(key, Json()); known.is_boolean()) flag = known;
  said["id"] = end_;
  said["content"] = token;
  ids_[token] = end_++;
  further_.emplace_back(token, said.dump());
}

void Vocabulary::unite() {
  for (const auto& model : order_) {
    const auto& tokens = vocabulary_of(model).tokens;
    std::size_t more = 0, plain = 0;
    for (const auto& [id, token] : tokens.by_id()) {
      if (ids_.contains(token)) continue;
      const auto entry = tokens.added.find(token);
      add(token, entry == tokens.added.end() ? "" : entry->second);
      ++more;
      plain += entry == tokens.added.end() ? 1 : 0;
    }
    if (more > 0)
      notes_.push_back(
          fmt::format("{}: {} further tokens, {} of which its tokenizer makes of parts; here they are "
                      "added tokens, which are cut out of texts before all others",
                      model.string(), more, plain));
  }
}

void Vocabulary::require_sources() const {
  for (const auto& row : choice_.rows) {
    if (row.model.empty()) continue;
    const auto its = own_.find(canonical_path(row.model));
    if (its == own_.end())
      throw InputError(row.where + ": is none of the models; expected zero, or the folder of one");
    const auto& token = row.source_token.empty() ? row.token : row.source_token;
    if (row.source_id >= its->second.rows)
      throw InputError(fmt::format("{}: {} has {} rows, and source_id is {}", row.where, row.model.string(),
                                   its->second.rows, row.source_id));
    if (row.source_id < 0 && !its->second.tokens.ids.contains(token))
      throw InputError(
          fmt::format("{}: {} has no token {}; expected a model that has it, source_token or "
                      "source_id",
                      row.where, row.model.string(), store::quoted(token)));
  }
}

/// The names of tensors of no layer, and their shapes, are all that is asked: any architecture's embeddings,
/// heads and heads' biases have a row for each token.
bool Vocabulary::has_rows(const Owner& owner, const std::string& name) {
  const auto& info = owner.weights->tensors().at(name);
  const auto& shape = info.shape;
  const auto rows = owner.vocabulary->rows;
  if (!is_number_type(info.scalar) || layer_named_in(name) || name.find("position") != std::string::npos ||
      name.find("wpe") != std::string::npos || std::find(shape.begin(), shape.end(), rows) == shape.end())
    return false;
  if (shape.front() != rows || std::count(shape.begin(), shape.end(), rows) != 1 || width_of(info) < 1)
    refuse(owner.weights->folder(), fmt::format("{} is [{}], and {} is the number of the vocabulary's rows; "
                                                "expected it in the first dimension alone",
                                                store::quoted(name), fmt::join(shape, ","), rows));
  return true;
}

void Vocabulary::arrange(Weights& start, std::vector<Model>& models, bool begins) const {
  std::vector<Owner> all;
  for (auto& model : models)
    if (auto* weights = std::get_if<Weights>(&model); weights != nullptr)
      all.push_back({weights, &vocabulary_of(weights->folder())});
  all.push_back({&start, &vocabulary_of(start.folder())});
  std::set<std::string> names;
  for (const auto& owner : all)
    for (const auto& entry : owner.weights->tensors())
      if (has_rows(owner, entry.first)) names.insert(entry.first);
  if (names.empty() && begins)
    refuse(start.folder(),
           fmt::format("has no embeddings of the {} rows that its config.json says (vocab_size)",
                       vocabulary_of(start.folder()).rows));
  const bool is_tied = !BaseLayers(base_, start.has("lm_head.weight")).tied.empty();
  for (const auto& owner : all) {
    std::string first;
    for (const auto& name : names) {
      if (!owner.weights->has(name)) continue;
      if (!has_rows(owner, name))
        refuse(owner.weights->folder(), fmt::format("{} has another number of rows than config.json says "
                                                    "(vocab_size = {}); expected a row for each token",
                                                    store::quoted(name), owner.vocabulary->rows));
      if (!is_tied || owner.weights->tensors().at(name).shape.size() != 2) continue;
      if (first.empty()) first = name;
      if (owner.weights->tensors().at(first).scalar != owner.weights->tensors().at(name).scalar ||
          !at::equal(owner.weights->tensor(first), owner.weights->tensor(name)))
        refuse(owner.weights->folder(),
               fmt::format("{} and {} differ, and the base ties the two; expected one "
                           "matrix, since both get the same rows",
                           store::quoted(first), store::quoted(name)));
    }
  }
  for (const auto& model : models)
    if (const auto* adapter = std::get_if<Adapter>(&model); adapter != nullptr)
      for (const auto& name : names)
        if (adapter->changes(name))
          refuse(adapter->folder(), "changes " + store::quoted(name) +
                                        ", whose rows the vocabulary moves; expected an "
                                        "adapter of layers, or a whole model");
  for (const auto& name : names) {
    std::vector<Owner> owners;
    for (const auto& owner : all)
      if (owner.weights->has(name)) owners.push_back(owner);
    arrange(name, owners);
  }
}

const Vocabulary::Row* Vocabulary::chosen(const std::string& token) const {
  const auto known = chosen_.find(token);
  return known == chosen_.end() ? nullptr : known->second;
}

at::Tensor Vocabulary::row(const std::string& name, const std::string& token,
                           const std::vector<Owner>& owners) const {
  const auto* choice = chosen(token);
  if (choice != nullptr && !choice->model.empty()) {
    const auto& its = vocabulary_of(choice->model);
    const auto owner = std::find_if(owners.begin(), owners.end(),
                                    [&](const Owner& each) { return each.vocabulary == &its; });
    if (owner == owners.end())
      throw InputError(fmt::format("{}: {} is not merged into {}; expected a model that is", choice->where,
                                   choice->model.string(), store::quoted(name)));
    const auto& source = choice->source_token.empty() ? token : choice->source_token;
    return row_of(*owner->weights, name,
                  choice->source_id >= 0 ? choice->source_id : its.tokens.ids.at(source));
  }
  std::vector<Owner> having;  // each folder once
  for (const auto& owner : owners)
    if (choice == nullptr && owner.vocabulary->tokens.ids.contains(token) &&
        std::none_of(having.begin(), having.end(),
                     [&](const Owner& each) { return each.vocabulary == owner.vocabulary; }))
      having.push_back(owner);
  if (having.empty()) return at::zeros({width_of(owners.back().weights->tensors().at(name))}, at::kFloat);
  for (const auto& owner : std::vector<Owner>(having))
    if (owner.vocabulary == first_) having = {owner};
  at::Tensor sum;
  for (const auto& owner : having) {
    const auto its = row_of(*owner.weights, name, owner.vocabulary->tokens.ids.at(token));
    sum = sum.defined() ? sum.add_(its) : its;
  }
  return sum.div_(static_cast<double>(having.size()));
}

void Vocabulary::arrange(const std::string& name, const std::vector<Owner>& owners) const {
  const auto& last = owners.back();
  const auto width = width_of(last.weights->tensors().at(name));
  for (const auto& owner : owners)
    if (const auto its = width_of(owner.weights->tensors().at(name)); its != width)
      refuse(owner.weights->folder(),
             fmt::format("a row of {} has {} numbers, and in {} it has {}; models that "
                         "are merged have the same tensors",
                         store::quoted(name), its, last.weights->folder().string(), width));
  std::map<std::string, std::int64_t> place;  // among the rows that not all models have, or use
  for (const auto& entry : ids_) {
    const auto* choice = chosen(entry.first);
    if ((choice != nullptr && choice->force) ||
        !std::all_of(owners.begin(), owners.end(),
                     [&](const Owner& owner) { return owner.vocabulary->tokens.ids.contains(entry.first); }))
      place.emplace(entry.first, std::ssize(place));
  }
  const auto count = std::ssize(place);
  const auto further = at::zeros({count, width}, at::kFloat), zeros = at::zeros({width}, at::kFloat);
  for (const auto& [token, i] : place) further[i].copy_(row(name, token, owners));
  for (const auto& owner : owners) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(rows_), -1 - count);
    for (const auto& [token, id] : ids_) {
      const auto its = owner.vocabulary->tokens.ids.find(token);
      const auto* choice = chosen(token);
      const bool has_own = its != owner.vocabulary->tokens.ids.end() && !(choice != nullptr && choice->force);
      index[static_cast<std::size_t>(id)] = has_own ? its->second : -1 - place.at(token);
    }
    bool is_as_it_was = rows_ == owner.vocabulary->rows;
    for (std::int64_t i = 0; i < rows_; ++i)
      is_as_it_was = is_as_it_was && index[static_cast<std::size_t>(i)] == i;
    if (is_as_it_was) continue;
    owner.weights->arrange(name, {index, further, zeros});  // the last: of ids that are no token's
    if (rows_ == std::ssize(ids_)) continue;
    auto sum = at::zeros({width}, at::kDouble);
    constexpr std::int64_t at_once = 1024;
    at::Tensor unused;
    for (std::int64_t begin = 0; begin < rows_; begin += at_once) {
      const auto n = std::min(at_once, rows_ - begin);
      sum += owner.weights->numbers(name, begin * width, n * width, unused)
                 .view({n, width})
                 .sum(0, false, at::kDouble);
    }
    owner.weights->arrange(
        name, {std::move(index), further, sum.div_(static_cast<double>(std::ssize(ids_))).to(at::kFloat)});
  }
}

void Vocabulary::configure(nlohmann::ordered_json& config) const {
  set_rows(config, rows_);
  if (canonical_path(source_) == canonical_path(base_)) return;
  const auto text = store::input_text(source_ / "config.json", "a model's configuration");
  take_ids(config, nlohmann::ordered_json::parse(text, nullptr, false));
}

void Vocabulary::write(const Path& folder) const {
  if (further_.empty()) return;
  auto json = tokenizer_json(folder / "tokenizer.json");
  auto& added = json["added_tokens"];
  if (!added.is_array()) added = Json::array();
  const auto config = folder / "tokenizer_config.json", listed = folder / "added_tokens.json";
  auto of_config =
      store::is_there(config) ? store::input_json(config, "a tokenizer's configuration") : Json();
  auto of_list = store::is_there(listed) ? store::input_json(listed, "added tokens: ids by tokens") : Json();
  for (const auto& [token, text] : further_) {
    auto entry = Json::parse(text);
    added.push_back(entry);
    const auto id = entry["id"];
    if (of_list.is_object()) of_list[token] = id;
    entry.erase("id");
    if (of_config.is_object() && of_config.contains("added_tokens_decoder"))
      of_config["added_tokens_decoder"][id.dump()] = entry;
  }
  const auto put = [](const fs::path& path, const Json& value) {
    if (!value.is_null()) store::write_atomically(path, value.dump(2) + "\n");
  };
  put(folder / "tokenizer.json", json);
  put(config, of_config);
  put(listed, of_list);
}

void write_chat_template(const Recipe& recipe, const fs::path& folder) {
  auto text = recipe.chat_template;
  if (text == "auto") {
    std::vector<std::pair<std::string, int>> counts;
    std::vector<fs::path> folders;
    if (recipe.names_base) folders.push_back(recipe.base);
    folders.insert(folders.end(), recipe.models.begin(), recipe.models.end());
    std::set<fs::path> seen;
    for (const auto& model : folders) {
      const auto its = seen.insert(canonical_path(model)).second ? chat_template_in(model) : "";
      if (its.find_first_not_of(" \t\r\n") == std::string::npos) continue;
      const auto known =
          std::find_if(counts.begin(), counts.end(), [&](const auto& c) { return c.first == its; });
      known == counts.end() ? static_cast<void>(counts.emplace_back(its, 1))
                            : static_cast<void>(++known->second);
    }
    if (counts.empty())
      throw InputError(
          "chat_template = \"auto\": no model has a chat template; expected one, or no such key");
    text = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
             return a.second < b.second;
           })->first;
  }
  store::write_atomically(folder / "chat_template.jinja", text);
  std::filesystem::remove(folder / "chat_template.json");  // a processor's, which would go before it
  if (const auto path = folder / "tokenizer_config.json"; store::is_there(path)) {
    auto json = store::input_json(path, "a tokenizer's configuration");
    json.erase("chat_template");
    store::write_atomically(path, json.dump(2) + "\n");
  }
}

}  // namespace taugrid::merging
