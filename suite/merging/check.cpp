// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/check.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/weights/weights.hpp"
#include "suite/error.hpp"
#include "suite/merging/checkpoints.hpp"
#include "suite/merging/difference.hpp"
#include "suite/merging/layers.hpp"
#include "suite/merging/stages.hpp"
#include "suite/merging/vocabulary.hpp"
#include "suite/store/input_file.hpp"
#include "suite/store/input_json.hpp"
#include "suite/store/quoted.hpp"

namespace taugrid::merging {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Findings = std::vector<Finding>;

/// Keys of config.json by which the same weights are another function.
constexpr std::array changing = {"model_type",
                                 "hidden_act",
                                 "hidden_activation",
                                 "activation_function",
                                 "num_attention_heads",
                                 "num_key_value_heads",
                                 "head_dim",
                                 "rope_theta",
                                 "rope_scaling",
                                 "rope_parameters",
                                 "sliding_window",
                                 "layer_norm_eps",
                                 "rms_norm_eps",
                                 "layer_norm_epsilon",
                                 "position_embedding_type",
                                 "tie_word_embeddings",
                                 "image_size",
                                 "patch_size",
                                 "num_hidden_layers",
                                 "relative_attention_num_buckets",
                                 "final_logit_softcapping",
                                 "attn_logit_softcapping"};
/// Keys that say something of a model, and change no number of it.
constexpr std::array telling = {"architectures", "torch_dtype", "dtype", "id2label",
                                "max_position_embeddings"};
constexpr std::array special = {"bos_token", "eos_token", "pad_token", "unk_token",
                                "cls_token", "sep_token", "mask_token"};
/// ‖τ‖/‖θ0‖ of tensors that have nothing in common is √2 where their norms are equal.
constexpr double far = 1;

std::string shown(const Json& value) {
  if (value.is_string()) return store::quoted(value.get<std::string>());
  return store::quoted(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

/// The object in the file; nothing where there is none.
std::optional<Json> object_in(const fs::path& path) {
  if (!store::is_there(path)) return std::nullopt;
  return store::input_json(path, "a JSON object");
}

std::optional<std::string> text_in(const fs::path& path) {
  if (!store::is_there(path)) return std::nullopt;
  return store::input_text(path, "a text file");
}

/// `sliced`: whether layers are taken from the model, which may have more of them than the base.
void compare_configurations(const fs::path& base, const fs::path& model, bool sliced, Findings& findings) {
  const auto ours = object_in(base / "config.json"), theirs = object_in(model / "config.json");
  if (!ours)
    return findings.push_back({true, base.string() + ": has no config.json; expected a Hugging Face folder"});
  if (!theirs)
    return findings.push_back({false, model.string() + ": has no config.json to compare with the base's"});
  const auto compare = [&](const char* key, bool wrong) {
    const auto a = ours->value(key, Json()), b = theirs->value(key, Json());
    if (a == b) return;
    const bool both = !a.is_null() && !b.is_null();
    findings.push_back(
        {wrong && both,
         fmt::format("{}: {} is {}, and {} in the base{}", (model / "config.json").string(), key, shown(b),
                     shown(a), wrong && both ? "; expected one function of the weights" : "")});
  };
  for (const auto* key : changing) compare(key, !sliced || key != std::string_view("num_hidden_layers"));
  for (const auto* key : telling) compare(key, false);
  for (const auto& [folder, json] : {std::pair(base, *ours), std::pair(model, *theirs)}) {
    if (json.contains("quantization_config"))
      findings.push_back(
          {true, (folder / "config.json").string() +
                     ": has a quantization_config; expected floating-point weights: dequantise it first"});
  }
}

void compare_tokens(const fs::path& base, const fs::path& model, Findings& findings) {
  const auto file = model / "tokenizer.json";
  const auto ours = text_in(base / "tokenizer.json"), theirs = text_in(file);
  if (!ours || !theirs) {
    if (ours.has_value() != theirs.has_value())
      findings.push_back(
          {false, (ours ? model : base).string() + ": has no tokenizer.json to compare with the other"});
  } else if (*ours != *theirs) {
    std::map<std::int64_t, std::string> known;
    for (auto& [id, token] : tokens_of(base / "tokenizer.json", *ours).by_id()) known[id] = token;
    const auto its = tokens_of(file, *theirs).by_id();
    std::int64_t others = 0, more = 0;
    std::string first;
    for (const auto& [id, token] : its) {
      const auto twin = known.find(id);
      if (twin == known.end()) {
        ++more;
      } else if (twin->second != token && others++ == 0) {
        first = fmt::format("{} is {}, and {} in the base", id, store::quoted(token),
                            store::quoted(twin->second));
      }
    }
    if (others > 0)
      findings.push_back(
          {true, fmt::format("{}: {} of {} tokens have the id of another one ({}); expected one "
                             "vocabulary, since embeddings are merged row by row",
                             file.string(), others, its.size(), first)});
    if (more > 0)
      findings.push_back(
          {false, fmt::format("{}: has {} tokens that the base has not; the result has the base's "
                              "tokenizer",
                              file.string(), more)});
  }
}

void compare_use_of_tokens(const fs::path& base, const fs::path& model, Findings& findings) {
  const auto mine = object_in(base / "tokenizer_config.json"),
             its = object_in(model / "tokenizer_config.json");
  if (!mine || !its) return;
  for (const auto* key : special) {
    const auto content = [&](const Json& json) {
      const auto value = json.value(key, Json());
      return value.is_object() ? value.value("content", Json()) : value;
    };
    if (content(*mine) != content(*its))
      findings.push_back(
          {false, fmt::format("{}: {} is {}, and {} in the base, whose tokenizer the result has",
                              (model / "tokenizer_config.json").string(), key, shown(content(*its)),
                              shown(content(*mine)))});
  }
  const auto chat = [](const fs::path& folder, const Json& json) {
    return text_in(folder / "chat_template.jinja").value_or(json.value("chat_template", Json()).dump());
  };
  if (chat(base, *mine) != chat(model, *its))
    findings.push_back(
        {false, model.string() + ": has another chat template than the base, which the result has"});
}

/// Adds what vectors say, of the models of these places.
void measure(const CheckpointVectors& vectors, const std::vector<std::size_t>& of, Check& check) {
  const auto all = check.models.size();
  check.numbers += vectors.length();
  auto which = vectors.all();
  which.push_back(TaskVectors::theta0);
  for (const auto& tensor : vectors.tensors()) {
    Distances sums{"", 1, std::vector<std::int64_t>(all), std::vector<double>(all), std::vector<double>(all)};
    for (const auto s : of) sums.numbers[s] = tensor.range.count;
    vectors.visit(which, tensor.range, 1, [&](std::int64_t, std::span<const at::Tensor> stretches) {
      const auto gram = weights::gram(std::vector<at::Tensor>(stretches.begin(), stretches.end()));
      const auto* g = gram.const_data_ptr<double>();
      const auto side = of.size() + 1;  // the last is θ0
      for (std::size_t i = 0; i < of.size(); ++i) {
        sums.base[of[i]] += g[side * side - 1];
        sums.tau[of[i]] += g[i * side + i];
        for (std::size_t j = 0; j < of.size(); ++j) {
          check.gram[of[i] * all + of[j]] += g[i * side + j];
          check.norms[of[i] * all + of[j]] += g[i * side + i];
        }
      }
    });
    const auto name = kind_of(tensor.name);
    auto kind = std::find_if(check.kinds.begin(), check.kinds.end(),
                             [&](const auto& other) { return other.name == name; });
    if (kind == check.kinds.end()) kind = check.kinds.insert(check.kinds.end(), {name});
    kind->add(sums);
    const auto layer = layer_of(tensor.name);
    check.layers.try_emplace(layer, Distances{layer_name(layer)}).first->second.add(sums);
  }
}

/// Compares models, or their layers, with θ0's.
class Weighing {
 public:
  Weighing(const Recipe& recipe, const std::function<void()>& go_on, Check& check)
      : recipe_(recipe), go_on_(go_on), check_(check) {
    for (const auto& slice : recipe.slices) {
      if (std::find(check.bases.begin(), check.bases.end(), slice.base_model) == check.bases.end())
        check.bases.push_back(slice.base_model);
      for (const auto& source : slice.sources) {
        if (is_base(slice, source)) continue;
        const auto& folder = recipe.models[source.model];
        if (places_.emplace(source.model, check.models.size()).second) check.models.push_back(folder);
        if (const std::pair pair(slice.base_model, folder);
            std::find(pairs_.begin(), pairs_.end(), pair) == pairs_.end())
          pairs_.push_back(pair);
      }
    }
    check.gram.assign(check.models.size() * check.models.size(), 0);
    check.norms = check.gram;
  }

  /// The base and the model of each vector.
  const std::vector<std::pair<fs::path, fs::path>>& pairs() const { return pairs_; }

  /// `vocabulary`: whose rows embeddings and heads have; null: they are as they stand.
  void look(const Vocabulary* vocabulary) {
    vocabulary_ = vocabulary;
    for (std::size_t s = 0; s < recipe_.slices.size(); ++s)
      look_at(recipe_.slices[s], Stage::Place::of(recipe_, s));
    for (const auto& entry : bytes_) check_.bytes += entry.second;
    if (vocabulary != nullptr)
      for (const auto& note : vocabulary->notes()) say(note);
  }

 private:
  void look_at(const Recipe::Slice& slice, Stage::Place place) {
    std::vector<const Recipe::Source*> left;
    for (const auto& source : slice.sources)
      if (!is_base(slice, source)) left.push_back(&source);
    while (!left.empty()) {  // those whose layers are compared with the same ones
      const auto range = slice.base.value_or(left.front()->layers);
      std::vector<const Recipe::Source*> together;
      std::copy_if(left.begin(), left.end(), std::back_inserter(together),
                   [&](const auto* source) { return slice.base || source->layers.begin == range.begin; });
      std::erase_if(left, [&](const auto* source) {
        return std::find(together.begin(), together.end(), source) != together.end();
      });
      compare(slice, range, together, place);
    }
  }

  void compare(const Recipe::Slice& slice, Range layers, const std::vector<const Recipe::Source*>& sources,
               Stage::Place place) {
    auto start = open_weights(slice.base_model);
    bytes_[slice.base_model] = static_cast<double>(start.bytes());
    if (recipe_.is_sliced && !slice.base) {
      for (const auto& [stack, count] : stacks_of(start))
        if (layers.end() > count)
          return say(fmt::format("{}: is [{}, {}], and {} has {} layers to compare with",
                                 sources.front()->where, layers.begin, layers.end(),
                                 slice.base_model.string(), count));
    }
    if (recipe_.is_sliced) take_layers(start, layers, sources.front()->where, place);
    std::vector<Model> models;
    std::vector<std::size_t> places;
    for (const auto* source : sources) {
      const auto& folder = recipe_.models[source->model];
      models.push_back(open_model(folder, start));
      bytes_[folder] = static_cast<double>(bytes_of(models.back()));
      for (const auto& note : notes_of(models.back())) say(note);
      if (auto* weights = std::get_if<Weights>(&models.back()); weights != nullptr && recipe_.is_sliced)
        take_layers(*weights, source->layers, source->where, place);
      places.push_back(places_.at(source->model));
    }
    if (vocabulary_ != nullptr) vocabulary_->arrange(start, models, place.begins);
    const CheckpointVectors vectors(start, models, CheckpointVectors::From::theta0, go_on_);
    vectors.require_one_start();
    for (const auto& note : vectors.matched().notes) say(note);
    measure(vectors, places, check_);
  }

  /// Whether θ0 itself is a source of a slice, as it may be of a method on models.
  bool is_base(const Recipe::Slice& slice, const Recipe::Source& source) const {
    return recipe_.is_sliced && same_folder(recipe_.models[source.model], slice.base_model);
  }
  void say(const std::string& line) {
    const auto& all = check_.findings;
    if (std::none_of(all.begin(), all.end(), [&](const Finding& other) { return other.line == line; }))
      check_.findings.push_back({false, line});
  }

  const Recipe& recipe_;
  const std::function<void()>& go_on_;
  Check& check_;
  const Vocabulary* vocabulary_ = nullptr;
  std::map<std::size_t, std::size_t> places_;  ///< among the models that are looked at, of a recipe's
  std::vector<std::pair<fs::path, fs::path>> pairs_;
  std::map<fs::path, double> bytes_;
};

bool is_far(const Distances& distances, std::size_t t) {
  return distances.tau[t] > 0 && distances.tau[t] >= far * far * distances.base[t];
}

/// "layer 3", or "layers 0-2, 7".
std::string as_ranges(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t i = 0; i < layers.size();) {
    auto end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layers[i]);
    if (end > i + 1) text += fmt::format("-{}", layers[end - 1]);
    i = end;
  }
  return (layers.size() == 1 ? "layer " : "layers ") + text;
}

/// Layers that no model changed, where some were.
void judge_unchanged_layers(Check& check) {
  std::vector<std::int64_t> unchanged;
  bool some_changed = false;
  for (const auto& [layer, distances] : check.layers) {
    if (!layer) continue;
    const auto& tau = distances.tau;
    if (std::any_of(tau.begin(), tau.end(), [](double norm) { return norm > 0; }))
      some_changed = true;
    else
      unchanged.push_back(*layer);
  }
  if (!unchanged.empty() && some_changed)
    check.findings.push_back({false, "no model changed a number of " + as_ranges(unchanged)});
}

/// Layers of model t that are far from the base's, where others are not.
void judge_far_layers(Check& check, std::size_t t) {
  std::vector<std::int64_t> apart;
  Distances others{""};
  for (const auto& [layer, distances] : check.layers) {
    if (!layer || distances.numbers[t] == 0) continue;
    if (is_far(distances, t)) {
      apart.push_back(*layer);
    } else {
      others.add(distances);
    }
  }
  if (apart.empty() || others.tensors == 0 || others.base[t] <= 0) return;
  check.findings.push_back(
      {false,
       fmt::format("{}: differs from the base by more than the base's own norm in {}, and by {:.3g} % in "
                   "the other layers; expected layers of one model",
                   check.models[t].string(), as_ranges(apart),
                   100 * std::sqrt(others.tau[t] / others.base[t]))});
}

/// Models that did not move, or as far as unrelated ones are.
void judge(Check& check) {
  std::string base;
  for (const auto& folder : check.bases) base += (base.empty() ? "" : " or ") + folder.string();
  for (std::size_t t = 0; t < check.models.size(); ++t) {
    std::int64_t all = 0,
                 apart = 0;  // numbers of kinds that are far from the base's: norms and biases say little
    double tau = 0;
    for (const auto& kind : check.kinds) {
      all += kind.numbers[t];
      apart += is_far(kind, t) ? kind.numbers[t] : 0;
      tau += kind.tau[t];
    }
    const auto name = check.models[t].string();
    if (all > 0 && tau == 0) {
      check.findings.push_back({false, name + ": has the base's own numbers, all of them"});
    } else if (2 * apart > all) {
      check.findings.push_back(
          {true, fmt::format("{}: {:.0f} % of its numbers are in tensors that differ from the base's by more "
                             "than these are; expected a model that was fine-tuned from {}",
                             name, 100.0 * static_cast<double>(apart) / static_cast<double>(all), base)});
    } else {
      judge_far_layers(check, t);
    }
  }
  judge_unchanged_layers(check);
}

}  // namespace

void Distances::add(const Distances& other) {
  tensors += other.tensors;
  numbers.resize(other.numbers.size());
  base.resize(other.base.size());
  tau.resize(other.tau.size());
  for (std::size_t t = 0; t < tau.size(); ++t) {
    numbers[t] += other.numbers[t];
    base[t] += other.base[t];
    tau[t] += other.tau[t];
  }
}

bool Check::wrong() const {
  return std::any_of(findings.begin(), findings.end(), [](const auto& finding) { return finding.wrong; });
}

Check check(const Recipe& recipe, const std::function<void()>& go_on) {
  const at::NoGradGuard no_grad;
  Check check;
  for (const auto& note : recipe.notes) check.findings.push_back({false, note});
  const auto or_found = [&](const auto& look) {
    try {
      look();
    } catch (const InputError& error) {
      check.findings.push_back({true, error.what()});
    } catch (const store::ReadFailure& failure) {
      check.findings.push_back({true, failure.what()});
    }
  };
  Weighing weighing(recipe, go_on, check);
  for (const auto& pair : weighing.pairs()) {
    const auto &base = pair.first, &model = pair.second;
    bool whole = true;  // an adapter has neither a configuration of the model's nor a tokenizer of its own
    or_found([&] { whole = !Adapter::is_in(model); });
    if (!whole) continue;
    or_found([&] { compare_configurations(base, model, recipe.is_sliced, check.findings); });
    if (!recipe.tokenizer) or_found([&] { compare_tokens(base, model, check.findings); });
    or_found([&] { compare_use_of_tokens(base, model, check.findings); });
  }
  or_found([&] {
    std::optional<Vocabulary> vocabulary;
    if (recipe.tokenizer) vocabulary.emplace(recipe);
    const auto* rows = vocabulary ? &*vocabulary : nullptr;
    if (recipe.is_sliced) static_cast<void>(stages_of(recipe, rows, go_on));
    weighing.look(rows);
    judge(check);
  });
  return check;
}

}  // namespace taugrid::merging
