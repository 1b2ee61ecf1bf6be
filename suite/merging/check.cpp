// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/merging/check.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/weights/weights.hpp"
#include "suite/error.hpp"
#include "suite/merging/checkpoints.hpp"
#include "suite/merging/difference.hpp"
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

void compare_configurations(const fs::path& base, const fs::path& model, Findings& findings) {
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
  for (const auto* key : changing) compare(key, true);
  for (const auto* key : telling) compare(key, false);
  for (const auto& [folder, json] : {std::pair(base, *ours), std::pair(model, *theirs)}) {
    if (json.contains("quantization_config"))
      findings.push_back(
          {true, (folder / "config.json").string() +
                     ": has a quantization_config; expected floating-point weights: dequantise it first"});
  }
}

/// Collects the tokens of a tokenizer.json by id: those of model.vocab, an object or a list of pairs, and
/// added_tokens. Nothing else of the file is kept.
class Tokens : public nlohmann::json_sax<Json> {
 public:
  std::map<std::int64_t, std::string> by_id;

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t number) override { return integer(number); }
  bool number_unsigned(number_unsigned_t number) override {
    return integer(static_cast<std::int64_t>(number));
  }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t& text) override {
    if (at({"added_tokens", "content"})) content_ = text;
    if (at({"model", "vocab"}) && depth_ == 4)
      by_id.emplace(std::ssize(by_id), text);  // unigram: [[token, score], …]
    return value();
  }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(); }
  bool key(string_t& name) override {
    if (depth_ <= path_.size()) path_.resize(depth_ - 1);
    path_.push_back(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    const bool opened = open();
    if (path_.size() < depth_) path_.emplace_back();  // elements have no names
    return opened;
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  static constexpr std::size_t deepest = 64;
  bool value() { return true; }
  bool open() { return ++depth_ <= deepest; }
  bool close() {
    if (path_.size() >= depth_) path_.resize(depth_ - 1);
    --depth_;
    return true;
  }
  /// Whether the steps with names are these.
  bool at(std::initializer_list<std::string_view> steps) const {
    std::vector<std::string_view> named;
    for (const auto& step : path_) {
      if (!step.empty()) named.push_back(step);
    }
    return std::equal(named.begin(), named.end(), steps.begin(), steps.end());
  }
  bool integer(std::int64_t number) {
    if (path_.size() == 3 && path_[0] == "model" && path_[1] == "vocab") by_id[number] = path_[2];
    if (at({"added_tokens", "id"})) id_ = number;
    if (id_ && content_) {
      by_id[*id_] = *content_;
      id_.reset();
      content_.reset();
    }
    return true;
  }

  std::vector<std::string> path_;
  std::size_t depth_ = 0;
  std::optional<std::int64_t> id_;
  std::optional<std::string> content_;
};

std::map<std::int64_t, std::string> tokens_in(const fs::path& path, const std::string& text) {
  Tokens tokens;
  if (!Json::sax_parse(text, &tokens))
    throw InputError(path.string() + ": is no tokenizer.json; expected JSON");
  return tokens.by_id;
}

void compare_tokenizers(const fs::path& base, const fs::path& model, Findings& findings) {
  const auto file = model / "tokenizer.json";
  const auto ours = text_in(base / "tokenizer.json"), theirs = text_in(file);
  if (!ours || !theirs) {
    if (ours.has_value() != theirs.has_value())
      findings.push_back(
          {false, (ours ? model : base).string() + ": has no tokenizer.json to compare with the other"});
  } else if (*ours != *theirs) {
    const auto a = tokens_in(base / "tokenizer.json", *ours), b = tokens_in(file, *theirs);
    std::int64_t others = 0, more = 0;
    std::string first;
    for (const auto& [id, token] : b) {
      const auto twin = a.find(id);
      if (twin == a.end()) {
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
                             file.string(), others, b.size(), first)});
    if (more > 0)
      findings.push_back(
          {false, fmt::format("{}: has {} tokens that the base has not; the result has the base's "
                              "tokenizer",
                              file.string(), more)});
  }
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

/// Adds what one stretch says: the last of `vectors` is θ0.
void add_stretch(Check& check, Distances& kind, std::span<const at::Tensor> vectors) {
  const auto gram = weights::gram(std::vector<at::Tensor>(vectors.begin(), vectors.end()));
  const auto models = std::ssize(vectors) - 1;
  const auto* g = gram.const_data_ptr<double>();
  const auto of = [&](std::int64_t i, std::int64_t j) { return g[i * (models + 1) + j]; };
  kind.base += of(models, models);
  check.base += of(models, models);
  for (std::int64_t s = 0; s < models; ++s) {
    kind.tau[static_cast<std::size_t>(s)] += of(s, s);
    for (std::int64_t t = 0; t < models; ++t)
      check.gram[static_cast<std::size_t>(s * models + t)] += of(s, t);
  }
}

void measure(const CheckpointVectors& vectors, Check& check) {
  const auto count = vectors.count();
  check.gram.assign(count * count, 0);
  check.numbers = vectors.length();
  auto which = vectors.all();
  which.push_back(TaskVectors::theta0);
  for (const auto& tensor : vectors.tensors()) {
    const auto name = kind_of(tensor.name);
    auto kind = std::find_if(check.kinds.begin(), check.kinds.end(),
                             [&](const auto& other) { return other.kind == name; });
    if (kind == check.kinds.end())
      kind = check.kinds.insert(check.kinds.end(), {name, 0, 0, 0, std::vector<double>(count, 0)});
    ++kind->tensors;
    kind->numbers += tensor.range.count;
    vectors.visit(which, tensor.range, 1, [&](std::int64_t, std::span<const at::Tensor> stretches) {
      add_stretch(check, *kind, stretches);
    });
  }
}

}  // namespace

bool Check::wrong() const {
  return std::any_of(findings.begin(), findings.end(), [](const auto& finding) { return finding.wrong; });
}

Check check(const fs::path& base, const std::vector<fs::path>& models, const std::function<void()>& go_on) {
  const at::NoGradGuard no_grad;
  Check check;
  const auto or_found = [&](const auto& look) {
    try {
      look();
    } catch (const InputError& error) {
      check.findings.push_back({true, error.what()});
    } catch (const store::ReadFailure& failure) {
      check.findings.push_back({true, failure.what()});
    }
  };
  for (const auto& model : models) {
    bool whole = true;  // an adapter has neither a configuration of the model's nor a tokenizer of its own
    or_found([&] { whole = !Adapter::is_in(model); });
    if (!whole) continue;
    or_found([&] { compare_configurations(base, model, check.findings); });
    or_found([&] { compare_tokenizers(base, model, check.findings); });
  }
  or_found([&] {
    const auto start = open_weights(base);
    check.bytes = static_cast<double>(start.bytes());
    std::vector<Model> opened;
    for (const auto& model : models) {
      opened.push_back(open_model(model, start));
      check.bytes += static_cast<double>(bytes_of(opened.back()));
      for (const auto& note : notes_of(opened.back())) check.findings.push_back({false, note});
    }
    const CheckpointVectors vectors(start, opened, CheckpointVectors::From::theta0, go_on);
    vectors.require_one_start();
    for (const auto& note : vectors.matched().notes) check.findings.push_back({false, note});
    measure(vectors, check);
    for (std::size_t t = 0; t < models.size(); ++t) {
      std::int64_t apart = 0;  // numbers of kinds that are far from the base's: norms and biases say little
      for (const auto& kind : check.kinds) apart += kind.tau[t] >= far * far * kind.base ? kind.numbers : 0;
      if (check.gram[t * models.size() + t] == 0) {
        check.findings.push_back({false, models[t].string() + ": has the base's own numbers, all of them"});
      } else if (2 * apart > check.numbers) {
        check.findings.push_back(
            {true,
             fmt::format(
                 "{}: {:.0f} % of its numbers are in tensors that differ from the base's by more than "
                 "these are; expected a model that was fine-tuned from {}",
                 models[t].string(), 100.0 * static_cast<double>(apart) / static_cast<double>(check.numbers),
                 base.string())});
      }
    }
  });
  return check;
}

}  // namespace taugrid::merging
